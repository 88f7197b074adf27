"""The real nvidia-ml-py against NVML's symbols: two GPUs, MIG, foreign processes, a lost GPU; and `decide`."""

from __future__ import annotations

import subprocess

import pytest
from machines import CARD

from capienza.api.deciding import decide
from capienza.truth import Truth

GIB = 2**30
MIB = 2**20
WHOLE = """
say("vLLM API server version 0.11.2")
say("Starting to load model meta-llama/Llama-3.1-8B...")
use(0, 16)
say("Model loading took 14.99 GiB and 3.2 seconds")
use(0, 20)
say("Application startup complete.")
use(0, 24)
say("Engine 000: Avg prompt throughput: 100 tokens/s, Running: 2 reqs, Waiting: 0 reqs")
use(0, 25)
usage()
"""
OOM = """
say("vLLM API server version 0.11.2")
say("Starting to load model meta-llama/Llama-3.1-8B...")
use(0, 40)
say("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 44.52 GiB "
    "of which 1.50 GiB is free. Process 1 has 43.02 GiB memory in use. Of the allocated memory 42.00 GiB is allocated "
    "by PyTorch, and 512.00 MiB is reserved by PyTorch but unallocated.")
sys.exit(1)
"""


def memory_of(machine, key="l40s"):
    """The verdict on memory for a GPU of the catalogue, with the records of the machine."""
    found = decide(machine.folder / "card.yaml", evidence=machine.folder / "evidence")
    decision = next(one.decision for one in found.judged if one.offer.id == key)
    return next(criterion for criterion in decision.criteria if criterion.criterion == "memory")


def claims(ended, quantity):
    return [claim for claim in ended.record["claims"] if claim["quantity"] == quantity]


def test_a_complete_run_makes_memory_admissible_and_stays_in_its_scope(machine):
    machine.gpus({})
    ended = machine.measure("--", *machine.script(WHOLE))
    assert ended.code == 0, ended.err.decode()
    assert ended.run["outcome"] == "completed"
    assert ended.run["covers_stage"] is True
    scope = ended.record["scope"]
    assert (scope["gpu"], scope["gpus"], scope["driver"]) == ("l40s", 1, "550.54.15")
    assert (scope["engine"], scope["engine_version"]) == ("vllm", "0.11.2")
    assert (scope["tokens"], scope["concurrency"]) == (2560, 2)
    peaks = {(one["phase"], one["counter"]): one["value"] for one in claims(ended, "peak_bytes")}
    assert peaks["load", "device"] == 20 * GIB  # the first reading after the phase belongs to it
    assert peaks["decode", "device"] == peaks["prefill", "device"] == 25 * GIB
    assert peaks["decode", "process"] == int(24.5 * GIB)
    assert memory_of(machine).truth is Truth.TRUE, memory_of(machine).reasons
    assert memory_of(machine, "l40").truth is Truth.UNKNOWN
    # The ledger beside it: what the engine printed of its weights.
    part = next(part for part in ended.run["ledger"] if "weights" in part["entries"])
    assert part["observed_bytes"] == pytest.approx(14.99 * GIB, abs=1)
    assert part["difference_bytes"] == part["observed_bytes"] - part["predicted_bytes"]


def test_what_was_read_outside_of_every_phase_counts_too(machine):
    machine.gpus({})
    ended = machine.measure("--", *machine.script(f"use(0, 44)\nuse(0, 2)\n{WHOLE}"))
    assert ended.run["outcome"] == "completed"
    peaks = {(one["phase"], one["counter"]): one["value"] for one in claims(ended, "peak_bytes")}
    assert peaks["unknown", "device"] == 44 * GIB
    assert (
        max(value for (phase, counter), value in peaks.items() if (phase, counter) != ("unknown", "device")) < 44 * GIB
    )
    assert memory_of(machine).truth is not Truth.TRUE


def test_out_of_memory_on_the_load_excludes(machine):
    machine.gpus({})
    ended = machine.measure("--", *machine.script(OOM))
    assert ended.code == 1
    assert (ended.run["outcome"], ended.run["failed_phase"]) == ("out_of_memory", "load")
    assert claims(ended, "outcome")[0]["phase"] == "load"
    assert memory_of(machine).truth is Truth.FALSE


def test_out_of_memory_beside_a_foreign_process_proves_nothing_of_the_load(machine):
    other = subprocess.Popen(["sleep", "60"])
    try:
        machine.gpus({"used": 30 * GIB, "procs": f"{other.pid}:{30 * GIB}"})
        ended = machine.measure(
            "--", *machine.script(OOM.replace("use(0, 40)", f"use(0, 40, also=',{other.pid}:999')"))
        )
    finally:
        other.kill()
        other.wait()
    assert ended.run["outcome"] == "failed"
    assert "measure.others-held" in ended.codes()
    assert [(one["name"], one["pid"]) for one in ended.run["others"]] == [("sleep", other.pid)]
    assert memory_of(machine).truth is Truth.UNKNOWN


def test_out_of_memory_beside_what_the_card_says_others_use_excludes(machine):
    other = subprocess.Popen(["sleep", "60"])
    try:
        machine.card(CARD + "host: {ram: 8 GiB, storage: 100 GB, others_use: 1 GiB}\n")
        machine.gpus({"used": GIB, "procs": f"{other.pid}:{GIB}"})
        script = OOM.replace("use(0, 40)", f"use(0, 40, also=',{other.pid}:999')")
        ended = machine.measure("--", *machine.script(script))
    finally:
        other.kill()
        other.wait()
    assert ended.run["outcome"] == "out_of_memory"
    assert memory_of(machine).truth is Truth.FALSE


@pytest.mark.parametrize(
    "change, code",
    [
        ("usage(output=100)", "measure.shorter"),
        ("usage(count=1)", "measure.fewer-at-once"),
        ("usage(truncated=True)", "measure.load-cut"),
        ("usage(dropped=3)", "measure.load-cut"),
        ("pass", "measure.dimension-not-told"),
        ("usage(truncated=None)", "measure.dimension-not-told"),
    ],
)
def test_a_load_that_fell_short_or_was_cut_covers_nothing(machine, change, code):
    machine.gpus({})
    ended = machine.measure("--", *machine.script(WHOLE.replace("usage()", change)))
    assert code in ended.codes()
    assert ended.run["covers_stage"] is not True
    found = decide(machine.folder / "card.yaml", evidence=machine.folder / "evidence")
    decision = next(one.decision for one in found.judged if one.offer.id == "l40s")
    workload = next(one for one in decision.criteria if one.criterion == "workload")
    assert workload.truth is not Truth.TRUE


def test_two_gpus_are_read_apart_and_only_the_used_ones_are_claimed(machine):
    machine.gpus({"used": GIB}, {"used": 2 * GIB})
    ended = machine.measure("--", *machine.script("use(1, 10)\nuse(1, 12)\nuse(1, 3)"))
    assert ended.run["gpus_used"] == ["gpu:1"]
    whole = {(one["scope"], one["counter"]): one["value"] for one in ended.run["peaks"] if one["phase"] == "run"}
    assert whole["gpu:0", "device"] == GIB
    assert whole["gpu:1", "device"] == 12 * GIB
    assert whole["gpu:0", "process"] == 0
    assert ended.run["baseline_bytes"] == {"gpu:0": GIB, "gpu:1": 2 * GIB}
    assert ended.record["scope"]["gpus"] == 1
    assert {claim["gpu_index"] for claim in claims(ended, "gpu_reported_bytes")} == {0}


def test_instances_of_a_divided_gpu_are_units_of_their_own(machine):
    parent = {"name": "NVIDIA A100-SXM4-80GB", "total": 81920 * MIB, "mig": 1}
    instance = {
        "mig0.name": "NVIDIA A100-SXM4-80GB MIG 3g.40gb", "mig0.uuid": "MIG-1", "mig0.total": 40192 * MIB,
        "mig2.name": "NVIDIA A100-SXM4-80GB MIG 1g.10gb", "mig2.uuid": "MIG-2", "mig2.total": 9728 * MIB,
    }  # fmt: skip
    machine.gpus({**parent, **instance})
    ended = machine.measure("--", *machine.script("use('0.mig0', 8)\nuse('0.mig0', 9)"))
    assert ended.run["gpus_used"] == ["gpu:0/mig:0"]
    assert ended.record["scope"]["gpu"].endswith("/3g.40gb")
    assert {one["scope"] for one in ended.run["peaks"] if one["counter"] == "device"} == {"gpu:0/mig:0", "gpu:0/mig:2"}


def test_a_gpu_that_is_lost_keeps_its_readings_and_says_so(machine):
    machine.gpus({}, {})
    ended = machine.measure(
        "--", *machine.script("use(1, 5)\nopen(state, 'a').write('gpu1.memory.error=15\\n')\ntime.sleep(0.5)")
    )
    assert ended.code == 0
    assert "measure.gpu-lost" in ended.codes()
    assert max(one["value"] for one in ended.run["peaks"] if one["scope"] == "gpu:1") == 5 * GIB


@pytest.mark.parametrize("code, text", [(18, "mismatch"), (9, "Driver Not Loaded")])
def test_a_driver_that_refuses_at_the_start_leaves_the_host_readings(machine, code, text):
    machine.gpus({}, init__error=code)
    ended = machine.measure("--", *machine.script("sys.exit(3)"))
    assert ended.code == 3
    finding = next(one for one in ended.run["findings"] if one["code"] == "measure.no-driver")
    assert text in finding["message"]
    assert {one["counter"] for one in ended.run["peaks"]} == {"rss"}


def test_a_call_that_is_not_permitted_is_unknown_and_not_zero(machine):
    machine.gpus({"procs.error": 4})
    ended = machine.measure("--", *machine.script("use(0, 10)\nuse(0, 11)"))
    assert "measure.nvml-refused" in ended.codes()
    assert "process" not in {one["counter"] for one in ended.run["peaks"]}
    assert ended.run["gpus_used"] == ["gpu:0"]  # its use has grown


def test_a_process_that_cannot_be_seen_or_is_not_told_is_unknown(machine):
    machine.gpus({})
    ended = machine.measure("--", *machine.script("use(0, 10, also=',4194304:5')\nuse(0, 11, also=',4194304:5')"))
    assert "measure.processes-unseen" in ended.codes()
    assert "process" not in {one["counter"] for one in ended.run["peaks"] if one["value"]}
    machine.gpus({})
    ended = machine.measure("--", *machine.script("use(0, 10, also=f',{os.getppid()}:-')\nuse(0, 11)"))
    assert "measure.process-untold" in ended.codes()


def test_a_planned_run_counts_only_with_the_others(machine):
    machine.gpus({})
    form = "evidence: 1\nkind: plan\ndate: 2026-01-01T00:00:00Z\nplanned_runs: 2\nauthor: A. Engineer\n"
    (machine.folder / "plan.yaml").write_text(form)
    from capienza.api.recording import evidence_add

    plan = evidence_add(machine.folder / "evidence", machine.folder / "plan.yaml").record.id
    ended = machine.measure("--plan", plan[:10], "--", *machine.script(WHOLE))
    assert ended.code == 0, ended.err.decode()
    assert plan in ended.record["inputs"]
    assert memory_of(machine).truth is Truth.UNKNOWN
    machine.gpus({})
    machine.measure("--plan", plan[:10], "--", *machine.script(WHOLE))
    assert memory_of(machine).truth is Truth.TRUE, memory_of(machine).reasons
