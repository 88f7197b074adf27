"""The counters of PyTorch: its allocator in main memory to the byte, its statistics on GPUs through a stand-in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capienza import measure
from capienza.errors import MissingPartError, UsageError
from capienza.measure import torch_cpu, torch_gpu
from capienza.measure.merge import merged
from capienza.measure.usage import Usage

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    """No test writes where another one did."""
    monkeypatch.delenv("CAPIENZA_RUN", raising=False)
    monkeypatch.delenv("RANK", raising=False)
    yield
    measure.stop()


def cpu_peaks(folder):
    return {peak.phase: peak.peak_bytes for peak in merged(folder).peaks if peak.counter == "cpu_allocated"}


def test_the_cpu_allocator_to_the_byte(tmp_path):
    measure.write_to(tmp_path)
    with measure.cpu_allocator():
        with measure.phase("load"):
            weights = torch.empty(1000, 1000)
        with measure.phase("forward"):
            made = [torch.empty(250_000) for _ in range(3)]
            made.pop()
        with measure.phase("backward"):
            gradients = torch.empty_like(weights)
            made.clear()
        with measure.phase("export"):
            pass
    measure.stop()
    assert cpu_peaks(tmp_path) == {
        "load": 4_000_000,
        "forward": 4_000_000 + 3 * 1_000_000,
        "backward": 4_000_000 + 2 * 1_000_000 + 4_000_000,
        "export": 8_000_000,
    }
    assert gradients.numel() == 1_000_000


@settings(max_examples=25)
@given(st.lists(st.tuples(st.sampled_from(["take", "give", "turn"]), st.integers(1, 5000)), max_size=40))
def test_the_level_is_the_sum_of_what_lives(moves):
    """The oracle adds up the tensors that are held; each turn is a boundary."""
    held, expected, found, highest = [], [], [], 0
    with torch_cpu.watching():
        torch_cpu.take()
        for kind, size in moves:
            if kind == "take":
                held.append(torch.empty(size))
                highest = max(highest, 4 * sum(one.numel() for one in held))
            elif kind == "give" and held:
                held.pop(size % len(held))
            elif kind == "turn":
                expected.append(highest)
                found += torch_cpu.take().values()
                highest = 4 * sum(one.numel() for one in held)
        held.clear()
    assert found == expected


def test_it_is_watched_only_when_asked_and_recorded(tmp_path):
    with measure.cpu_allocator():
        assert torch_cpu.take() == {}
    measure.write_to(tmp_path)
    with measure.phase("load"):
        torch.empty(1000)
    measure.stop()
    assert cpu_peaks(tmp_path) == {}


def test_another_profiler_is_no_place_for_it(tmp_path):
    measure.write_to(tmp_path)
    profiler = torch.autograd.profiler.profile()
    with profiler, pytest.raises(UsageError, match="another profiler"), measure.cpu_allocator():
        pass


def test_without_torch_it_is_said_and_phases_go_on(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    measure.write_to(tmp_path)
    with measure.phase("load"):
        pass
    with pytest.raises(MissingPartError, match="PyTorch is not installed"), measure.cpu_allocator():
        pass


class FakeCuda:
    """Two cards, of which the second was used, with the allocator's own bookkeeping."""

    def __init__(self):
        self.peak, self.now, self.is_begun = 900, 300, True

    def is_initialized(self):
        return self.is_begun

    def device_count(self):
        return 2

    def memory_stats_as_nested_dict(self, index):
        kinds = {"allocated_bytes": self.peak, "reserved_bytes": 2 * self.peak}
        return {name: {"all": {"peak": value if index else 0}} for name, value in kinds.items()}

    def reset_peak_memory_stats(self, index):
        assert index == 1
        self.peak = self.now

    def get_device_properties(self, index):
        return SimpleNamespace(uuid=f"0000-{index}")


@pytest.fixture
def cuda(monkeypatch):
    fake = FakeCuda()
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=fake))
    torch_gpu._meter.cache_clear()
    yield fake
    torch_gpu._meter.cache_clear()


def test_the_peaks_of_used_cards_begin_anew(cuda):
    first, second = torch_gpu.take(), torch_gpu.take()
    assert {(meter.name, meter.scope): value for meter, value in first.items()} == {
        ("allocated", "gpu:1"): 900,
        ("reserved", "gpu:1"): 1800,
    }
    assert sorted(second.values()) == [300, 600]
    (device,) = {meter.device for meter in first}
    assert len(device) == 64
    assert "0000" not in device


def test_a_program_that_has_not_begun_cuda_is_left_alone(cuda):
    cuda.is_begun = False
    assert torch_gpu.take() == {}


def test_the_phases_of_a_card_are_apart(tmp_path, cuda):
    measure.write_to(tmp_path)
    with measure.phase("load"):
        cuda.now, cuda.peak = 400, 500
    with measure.phase("forward"):
        cuda.peak = 700
    measure.stop()
    found = {(p.phase, p.counter): p.peak_bytes for p in merged(tmp_path).peaks if p.gpu == 0}
    assert found == {
        ("load", "allocated"): 500,
        ("load", "reserved"): 1000,
        ("forward", "allocated"): 700,
        ("forward", "reserved"): 1400,
    }


RANKED = """
    import torch
    import torch.distributed as distributed
    from capienza import measure

    distributed.init_process_group("gloo")
    rank = distributed.get_rank()
    with measure.cpu_allocator():
        with measure.phase("load"):
            held = torch.zeros((rank + 1) * 1_000_000)
        with measure.phase("communication"):
            distributed.all_reduce(held[:1000])
    distributed.destroy_process_group()
"""


@pytest.mark.filterwarnings("default")
def test_two_processes_under_torchrun_are_merged_by_rank(tmp_path):
    program, run = tmp_path / "program.py", tmp_path / "run"
    program.write_text(textwrap.dedent(RANKED))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(program)]
    environment = os.environ | {"CAPIENZA_RUN": str(run), "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert ended.returncode == 0, ended.stderr
    assert sorted(path.name for path in run.iterdir()) == ["readings.0.jsonl", "readings.1.jsonl"]
    found = merged(run)
    assert found.findings == ()
    loads = [(p.rank, p.peak_bytes) for p in found.peaks if (p.phase, p.counter) == ("load", "cpu_allocated")]
    assert loads == [(0, 4_000_000), (1, 8_000_000)]
    assert {(peak.phase, peak.rank) for peak in found.peaks} == {
        (phase, rank) for phase in ("load", "communication") for rank in (0, 1)
    }


def trained(folder: Path):
    """A tiny model trained by the Trainer for two epochs; what it cost is in the folder."""
    transformers = pytest.importorskip("transformers")
    transformers.set_seed(0)
    configuration = transformers.LlamaConfig(
        vocab_size=512, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64,
    )  # fmt: skip
    measure.write_to(folder / "run")
    rows = [{"input_ids": list(range(32)), "labels": list(range(32))} for _ in range(8)]
    with measure.cpu_allocator():
        with measure.phase("load"):
            model = transformers.LlamaForCausalLM(configuration)
        arguments = transformers.TrainingArguments(
            output_dir=str(folder / "out"), per_device_train_batch_size=2, gradient_accumulation_steps=2,
            num_train_epochs=2, eval_strategy="epoch", save_strategy="epoch", report_to=[], use_cpu=True,
            disable_tqdm=True, dataloader_pin_memory=False,
        )  # fmt: skip
        trainer = transformers.Trainer(
            model=model,
            args=arguments,
            train_dataset=rows,
            eval_dataset=rows[:2],
            callbacks=[measure.trainer_callback()],
        )
        trainer.train()
        with measure.phase("export"):
            model.save_pretrained(folder / "export")
    measure.stop()
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.filterwarnings("default")
def test_the_trainers_callback_covers_the_complete_cycle(tmp_path):
    parameters = trained(tmp_path)
    counts = {p.phase: p.count for p in merged(tmp_path / "run").peaks if p.counter == "cpu_allocated"}
    assert counts == {
        "load": 1,
        "forward": 8,
        "backward": 8,
        "optimizer_step_first": 1,
        "optimizer_step_steady": 3,
        "eval": 2,
        "checkpoint": 2,
        "export": 1,
    }
    peaks = cpu_peaks(tmp_path / "run")
    weights = 4 * parameters
    assert weights <= peaks["load"] < 1.01 * weights
    assert peaks["backward"] > 2 * weights
    assert peaks["optimizer_step_first"] >= 4 * weights
    assert peaks["forward"] > 3 * weights
    steps = [
        json.loads(line)["step"]
        for line in (tmp_path / "run" / "readings.0.jsonl").read_text().splitlines()
        if '"optimizer_step' in line and '"end"' in line
    ]
    assert steps == [0, 1, 2, 3]
    usage = Usage()
    usage.folder(tmp_path / "run")
    found = usage.executed(None)
    assert (found.tokens, found.microbatch, found.accumulation, found.samples) == (32, 2, 2, 16)


def test_the_callback_without_a_run_does_nothing():
    pytest.importorskip("transformers")
    callback = measure.trainer_callback()
    model = torch.nn.Linear(1, 1)
    control = SimpleNamespace(should_evaluate=True, should_save=True)
    callback.on_train_begin(None, SimpleNamespace(global_step=0), control, model=model)
    model(torch.ones(1))
    callback.on_step_end(None, None, control)
    callback.on_train_end(None, None, control)
    assert not model._forward_hooks


@pytest.mark.filterwarnings("default")
def test_a_compiled_model_is_marked_too(tmp_path):
    pytest.importorskip("transformers")
    measure.write_to(tmp_path)
    callback, model = measure.trainer_callback(), torch.nn.Linear(4, 4)
    compiled = torch.compile(model, backend="eager")
    control, state = SimpleNamespace(should_evaluate=False, should_save=False), SimpleNamespace(global_step=0)
    callback.on_train_begin(None, state, control, model=model)
    for _ in range(2):
        compiled(torch.ones(2, 4)).sum().backward()
        callback.on_pre_optimizer_step(None, state, control)
        callback.on_step_end(None, state, control)
    callback.on_train_end(None, state, control)
    measure.stop()
    counts = {peak.phase: peak.count for peak in merged(tmp_path).peaks}
    assert counts == {"load": 1, "forward": 2, "backward": 2, "optimizer_step_first": 1, "optimizer_step_steady": 1}


def test_without_transformers_the_callback_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingPartError, match="transformers, which is not installed"):
        measure.trainer_callback()
