"""The CUDA side of the script for a card, without one: a card made up here answers what torch.cuda would."""

from __future__ import annotations

import ctypes
import gzip
import importlib
import json
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import ROOT

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")
MIB = 2**20
CAPACITY = 1000 * MIB
FULL = "CUDA out of memory. Tried to allocate it all"


class Card:
    """An allocator of one card by hand: the script may read nothing else."""

    def __init__(self) -> None:
        self.allocated = self.allocated_peak = self.reserved = self.reserved_peak = 0
        self.mallocs, self.outside, self.calls = 0, 500 * MIB, []

    def take(self, size: int, *, reserved: int = 0) -> None:
        if self.reserved + reserved > CAPACITY:
            raise torch.OutOfMemoryError(FULL)
        self.allocated, self.reserved = self.allocated + size, self.reserved + reserved
        self.mallocs += reserved > 0
        self.allocated_peak = max(self.allocated, self.allocated_peak)
        self.reserved_peak = max(self.reserved, self.reserved_peak)

    def reset(self) -> None:
        self.allocated_peak, self.reserved_peak = self.allocated, self.reserved

    def stats(self) -> dict[str, int]:
        both = {"allocated": (self.allocated, self.allocated_peak), "reserved": (self.reserved, self.reserved_peak)}
        both |= {"requested": both["allocated"], "active": both["allocated"]}
        found = {f"{name}_bytes.all.current": now for name, (now, _) in both.items()}
        found |= {f"{name}_bytes.all.peak": peak for name, (_, peak) in both.items()}
        return found | {"num_device_alloc": self.mallocs, "num_device_free": 0, "num_alloc_retries": 0, "num_ooms": 0}

    def mem_get_info(self) -> tuple[int, int]:
        return 2 * CAPACITY - self.reserved - self.outside, 2 * CAPACITY


SNAPSHOT = {
    "segments": [
        {
            "device": 0, "address": 4096, "total_size": 2 * MIB, "stream": 0, "segment_type": "small",
            "segment_pool_id": (0, 0), "is_expandable": False, "frames": [],
            "blocks": [
                {"address": 4096, "size": 512, "requested_size": 4, "state": "active_allocated", "frames": []},
                {"address": 4608, "size": 2 * MIB - 512, "requested_size": 0, "state": "inactive", "frames": []},
            ],
        }
    ],
    "device_traces": [[
        {"action": "segment_alloc", "addr": 4096, "size": 2 * MIB, "stream": 0, "time_us": 10, "frames": []},
        {"action": "alloc", "addr": 4096, "size": 4, "stream": 0, "time_us": 11, "frames": []},
        {"action": "alloc", "addr": 4608, "size": 8, "stream": 0, "time_us": 20, "frames": []},
        {"action": "free_requested", "addr": 4608, "size": 8, "stream": 0, "time_us": 21, "frames": []},
        {"action": "free_completed", "addr": 4608, "size": 8, "stream": 0, "time_us": 21, "frames": []},
        {"action": "oom", "device_free": 7, "size": 9, "stream": 0, "time_us": 30, "frames": []},
    ]],
    "allocator_settings": {"expandable_segments": False},
}  # fmt: skip


@pytest.fixture
def bench(monkeypatch):
    """The modules of the folder, as when a script of it runs."""
    monkeypatch.syspath_prepend(str(ROOT / "bench" / "gpu"))
    return importlib.import_module


@pytest.fixture
def card(monkeypatch):
    """torch.cuda, answered by a card made up here; tensors stay in main memory."""
    made = Card()
    properties = SimpleNamespace(name="NVIDIA Made-Up", total_memory=2 * CAPACITY, multi_processor_count=1)
    answers = {
        "synchronize": lambda: None, "init": lambda: made.calls.append("init"), "empty_cache": lambda: None,
        "reset_peak_memory_stats": made.reset, "memory_stats": made.stats, "mem_get_info": made.mem_get_info,
        "memory_reserved": lambda: made.reserved, "get_device_properties": lambda _: properties,
        "get_device_capability": lambda _: (9, 0),
        "set_per_process_memory_fraction": lambda part: made.calls.append(("fraction", part)),
    }  # fmt: skip
    for name, answer in answers.items():
        monkeypatch.setattr(torch.cuda, name, answer)
    monkeypatch.setattr(torch.cuda.memory, "_snapshot", lambda: SNAPSHOT)
    monkeypatch.setattr(
        torch.cuda.memory, "_record_memory_history", lambda **asked: made.calls.append(("record", asked["enabled"]))
    )
    monkeypatch.setattr(torch._C, "_cuda_clearCublasWorkspaces", lambda: made.calls.append("cleared"), raising=False)
    # torch keeps the list of constructors that it makes first: let it not be one with the answer below.
    importlib.import_module("torch.utils._device")._device_constructors()
    zeros = torch.zeros
    monkeypatch.setattr(torch, "zeros", lambda *size, **kind: zeros(*size, **kind | {"device": "cpu"}))
    return made


def program(card, *, step_reserves: int = 0):
    """A program that takes memory by hand."""

    def build(device):
        card.take(100 * MIB, reserved=120 * MIB)
        return SimpleNamespace(model=torch.nn.Linear(2, 3))

    def step(state, phase):
        with phase("forward"):
            card.take(50 * MIB, reserved=step_reserves)
            card.take(-50 * MIB)
        with phase("optimizer_step"):
            card.take(10 * MIB)
            card.allocated -= 10 * MIB

    return SimpleNamespace(build=build, step=step, is_tiny=False)


def test_every_phase_has_its_own_peaks_and_counts(bench, card):
    counters = bench("card_counters").CudaCounters(bench("card_counters").context())
    card.take(1 * MIB, reserved=2 * MIB)
    done = bench("card_child").run_program(program(card), "cpu", counters)
    assert done["outcome"] == "ok"
    assert done["base"]["now"]["allocated"] == 1 * MIB
    assert done["parameters"] == 9
    seen = [(one["phase"], one["step"], one["peak"]["allocated"] // MIB) for one in done["phases"]]
    assert seen == [
        ("load", 0, 101), ("forward", 0, 151), ("optimizer_step_first", 0, 111), ("forward", 1, 151),
        ("optimizer_step_steady", 1, 111), ("forward", 2, 151), ("optimizer_step_steady", 2, 111),
    ]  # fmt: skip
    assert [one["counts"]["cudamallocs"] for one in done["phases"]] == [1, 0, 0, 0, 0, 0, 0]
    assert {one["device"] - one["now"]["reserved"] for one in done["phases"]} == {500 * MIB}
    assert all(one["is_device_peak"] for one in done["phases"])


def test_the_row_keeps_the_counters_apart(bench, card):
    counters = bench("card_counters").CudaCounters({})
    done = bench("card_child").run_program(program(card), "cpu", counters)
    done |= {"settings": bench("card_counters").settings("cuda")}
    row = bench("card_rows").row("gpt2", bench("programs").PROGRAMS["gpt2"], done)
    found = {(one["phase"], one["counter_kind"]): one["bytes"] // MIB for one in row["measured"]}
    assert found["load", "torch_allocated_peak"] == 100
    assert found["whole run", "torch_allocated_peak"] == 150
    assert found["whole run", "torch_reserved_peak"] == 120
    assert found["whole run", "device_used_peak"] == 620
    assert (row["gpu"], row["num_gpus"], row["tier"]) == ("NVIDIA Made-Up", 1, "gold")


def test_a_device_reading_below_the_peak_of_reserved_is_not_given(bench):
    readings = bench("card_rows").readings([
        {"phase": "forward", "peak": {"allocated": 5, "reserved": 9}, "device": 4, "is_device_peak": False}
    ])  # fmt: skip
    assert {one["counter_kind"] for one in readings} == {"torch_allocated_peak", "torch_reserved_peak"}


def test_the_driver_is_asked_without_a_context(bench, nvml_folder, tmp_path, monkeypatch):
    counters, load = bench("card_counters"), ctypes.CDLL
    monkeypatch.setattr(counters.ctypes, "CDLL", lambda name: load(str(nvml_folder / name)))
    answers = tmp_path / "nvml"
    answers.write_text(f"count=1\ngpu0.total={80 * MIB}\ngpu0.used={3 * MIB}\n")
    monkeypatch.setenv("FAKE_NVML", str(answers))
    assert counters.device_used_by_driver() == 3 * MIB
    answers.write_text("count=1\nmemory.error=3\n")
    assert counters.device_used_by_driver() is None
    monkeypatch.setattr(counters.ctypes, "CDLL", lambda name: load(str(tmp_path / name)))
    assert counters.device_used_by_driver() is None


def test_a_full_card_is_a_case_with_the_phases_before(bench, card):
    counters = bench("card_counters").CudaCounters({})
    done = bench("card_child").run_program(program(card, step_reserves=CAPACITY), "cpu", counters)
    assert (done["outcome"], done["error"]) == ("oom", FULL)
    assert [one["phase"] for one in done["phases"]] == ["load", "forward"]


def test_the_real_programs_run_under_the_counters_of_a_card(bench, card, tmp_path):
    child, counters = bench("card_child"), bench("card_counters")
    job = {
        "names": ["gpt2", "generate"], "is_tiny": True, "until": 1e12, "cases": str(tmp_path / "cases"),
        "log": str(tmp_path / "log"), "recordings": {"gpt2": str(tmp_path / "gpt2.json.gz")}, "kind": "cases",
    }  # fmt: skip
    child.cases(job, counters.CudaCounters(counters.context()), "cpu")
    rows = [json.loads(line) for line in (tmp_path / "cases").read_text().splitlines()]
    assert [one["program"] for one in rows] == ["gpt2", "generate"]
    assert rows[0]["run"]["context"]["after_context"] == 500 * MIB
    assert rows[0]["run"]["allocator_settings"] == {"expandable_segments": False}
    assert rows[1]["run"]["before_in_process"] == ["gpt2"]
    assert [name for name in card.calls if name == ("record", "all")] == [("record", "all")]
    with gzip.open(tmp_path / "gpt2.json.gz") as file:
        assert json.load(file)["program"] == "gpt2"


def test_a_smallest_capacity_is_tried_under_its_limit(bench, card, tmp_path):
    child, counters = bench("card_child"), bench("card_counters")
    job = {
        "names": ["distilgpt2"], "is_tiny": True, "until": 1e12, "kind": "capacity", "log": str(tmp_path / "log"),
        "capacity_bytes": 64 * MIB,
    }  # fmt: skip
    child.capacity(job, counters.CudaCounters({}), "cpu")
    trial = json.loads((tmp_path / "log").read_text().splitlines()[0])
    assert (trial["kind"], trial["outcome"], trial["capacity_bytes"]) == ("capacity_trial", "ok", 64 * MIB)
    (fraction,) = [part for name, part in (one for one in card.calls if isinstance(one, tuple)) if name == "fraction"]
    assert int(fraction * 2 * CAPACITY) == 64 * MIB


def test_scratch_is_the_peak_less_what_was_held_and_comes_out(bench, card):
    counters = bench("card_counters").CudaCounters({})
    card.take(7 * MIB, reserved=20 * MIB)

    def call():
        card.take(4000 + 3 * MIB, reserved=0)
        card.take(-3 * MIB + 512)
        out = torch.empty(1000)
        return out, out[:10]

    found = bench("kernel_table").call_once(call, counters)
    assert found["outputs"] == {"requested": 4000, "allocated": 4096}
    assert found["requested"] == {"peak_over_before": 4000 + 3 * MIB, "scratch": 3 * MIB, "stays": 4512}


def test_every_operation_is_prepared_and_called_under_the_counters(bench, card, tmp_path):
    child, ops = bench("card_child"), bench("kernel_ops").OPS
    job = {
        "names": [name for name in ops if "conv" not in name and name != "gemm_4bit"], "is_tiny": True, "until": 1e12,
        "kernels": str(tmp_path / "kernels"), "log": str(tmp_path / "log"), "kind": "kernels",
    }  # fmt: skip
    child.kernels(job, bench("card_counters").CudaCounters({}), "cpu")
    found = [json.loads(line) for line in (tmp_path / "kernels").read_text().splitlines()]
    kernels = [one for one in found if one["kind"] == "kernel"]
    # What no CPU has is refused by its name; anything else refused would be a mistake of ours.
    assert {one["name"] for one in kernels if "refused" in one} == {
        "sdpa_efficient", "sdpa_efficient_backward", "sdpa_cudnn", "sdpa_cudnn_backward",
    }  # fmt: skip
    assert {one["name"] for one in kernels} == set(job["names"])
    assert all(len(one["calls"]) == 2 for one in kernels if "calls" in one)
    assert '"failed"' not in (tmp_path / "log").read_text()


def test_a_recording_is_read_by_the_simulator_and_knows_its_phases(bench, tmp_path):
    recording = bench("card_recording")
    found = recording.reduced(SNAPSHOT, [(9, "load"), (15, "forward"), (99, "backward")], {"program": "gpt2"})
    assert found["marks"] == [[0, "load"], [2, "forward"], [6, "backward"]]
    assert "frames" not in json.dumps(found["segments"])
    size = recording.save(tmp_path / "one.json.gz", found)
    assert size == (tmp_path / "one.json.gz").stat().st_size
    from capienza.allocator.snapshot import read_snapshot

    read = read_snapshot(tmp_path / "one.json.gz")
    assert [(event.action, event.size) for event in read.device_traces[0]][-1] == ("oom", 9)
    assert [(block.size, block.requested_size) for block in read.segments[0].blocks] == [(512, 4), (2 * MIB - 512, 0)]


def test_events_without_a_time_give_no_marks(bench):
    bare = [[{"action": "alloc", "addr": 0, "size": 1, "stream": 0}]]
    assert bench("card_recording").placed(bare, [(1, "load")]) is None


@given(least=st.integers(1, 4000), slack=st.integers(0, 3000), alone=st.integers(0, 200))
def test_the_search_ends_one_step_around_the_least_that_runs(least, slack, alone):
    import sys

    sys.path.insert(0, str(ROOT / "bench" / "gpu"))
    try:
        card = importlib.import_module("measure_card")
    finally:
        sys.path.remove(str(ROOT / "bench" / "gpu"))
    allocated, reserved = max(1, least - alone) * MIB, (least + slack) * MIB
    low, high, is_complete = card.bisected(allocated, reserved, lambda size: size >= least * MIB)
    assert is_complete
    assert low < least * MIB <= high
    assert high - low == card.STEP_BYTES


def test_a_search_without_an_answer_says_that_it_is_not_complete(bench):
    low, high, is_complete = bench("measure_card").bisected(100 * MIB, 1000 * MIB, lambda _: None)
    assert (low, high, is_complete) == (64 * MIB, 1024 * MIB, False)


def test_a_crash_loses_one_name_and_the_rest_goes_on(bench, tmp_path, monkeypatch):
    script, rows = bench("measure_card"), bench("card_rows")
    runner = script.Runner(tmp_path, "cpu", 1e12)
    begun = []

    def child(job):
        begun.append(list(job["names"]))
        for name in job["names"]:
            if name == "b":
                return "ended with code -11"
            rows.append(runner.log, {"kind": "done", "name": name})
        return ""

    monkeypatch.setattr(runner, "child", child)
    assert runner.do("cases", ["a", "b", "c"]) == []
    assert begun == [["a", "b", "c"], ["c"]]
    assert [(one["kind"], one["name"]) for one in rows.lines(runner.log)] == [
        ("done", "a"),
        ("died", "b"),
        ("done", "c"),
    ]


def test_a_child_over_its_limit_is_ended(bench):
    ended = []
    why = bench("measure_card").awaited(lambda: None, lambda: ended.append(1), 0.05)
    assert (why, ended) == ("killed after 0 s", [1])


def test_shapes_have_the_published_number_of_parameters(bench):
    models = bench("program_models")
    for name, shape in models.SHAPES.items():
        if shape["head"] != "image":
            built = models.model(name, "bfloat16", "meta")
            assert sum(one.numel() for one in built.parameters()) == shape["parameters"], name


def test_every_program_has_a_row_of_its_own_shape(bench):
    settings = {"device": "cuda", "torch": "2.11.0", "transformers": "5.17.0", "gpu": "NVIDIA Made-Up"}
    done = {"phases": [], "outcome": "ok", "at": 1, "settings": settings, "parameters": 5, "attention": "sdpa"}
    for name, whole in bench("programs").PROGRAMS.items():
        for one in (whole, whole.tiny()):
            row = bench("card_rows").row(name, one, done | {"is_tiny": one.is_tiny})
            assert row["program"] == name
            assert json.loads(json.dumps(row)) == row
    lora = bench("card_rows").row("qlora", bench("programs").PROGRAMS["qlora"], done)
    assert (lora["method"], lora["weight_dtype"], lora["lora"]["r"], lora["arch"]["layers"]) == ("qlora", "nf4", 16, 28)


def test_the_programs_are_the_promised_ones(bench):
    programs = bench("programs").PROGRAMS
    assert len(programs) == 24
    assert sum(name.startswith("xmem-") for name in programs) == 7
    first = [programs[name] for name in list(programs)[:7]]
    assert {(one.dtype, one.microbatch, one.tokens) for one in first} == {("float32", 1, 512)}
    assert set(bench("measure_card").RECORDED) <= set(programs)
    assert set(bench("measure_card").CAPACITIES) <= set(programs)
