"""What the figures of a failure show, in cases worked by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capienza.diagnose.run import diagnose_log

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {asked} MiB. GPU 0 has a total capacity of "
OOM += "{total} MiB of which {free} MiB is free."
POOL = " Including non-PyTorch memory, this process has {used} MiB memory in use. Of the allocated memory {allocated} "
POOL += "MiB is allocated by PyTorch, and {spare} MiB is reserved by PyTorch but unallocated."
VLLM = "ValueError: Free memory on device (12.5/23.6 GiB) on startup is less than desired GPU memory utilization "
VLLM += "(0.9, 21.24 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."


def codes(log: str) -> set[str]:
    return {message.code for message in diagnose_log([log.encode()]).explains}


def test_what_is_taken_is_others_only_where_this_process_has_not_begun():
    cut = OOM.format(asked=448, total=24000, free=300)
    assert codes(cut) == {"diagnose.short", "diagnose.taken"}
    assert codes(VLLM) == {"diagnose.short", "diagnose.share"}


@pytest.mark.parametrize(
    ("spare", "allocated", "code"),
    [
        (1999, 70000, "diagnose.not-fragmented"),
        (2000, 70000, "diagnose.near-fragmented"),
        (2499, 70000, "diagnose.near-fragmented"),
        (2500, 70000, "diagnose.small-part"),
        (5000, 70000, "diagnose.small-part"),
        (8000, 70000, "diagnose.fragmented"),
    ],
)
def test_how_much_of_the_pool_lies_unused(spare, allocated, code):
    """2000 MiB asked: clearly enough from 2500 on, a tenth of the pool of 70000 + R from 7778 on."""
    text = OOM + POOL
    log = text.format(asked=2000, total=81000, free=100, used=allocated + spare, allocated=allocated, spare=spare)
    assert code in codes(log)


@given(st.integers(1, 9000), st.integers(1, 9000), st.integers(1, 70000))
def test_barely_enough_is_said_of_nothing_that_is_more_than_that(asked, spare, allocated):
    text = (OOM + POOL).format(asked=asked, total=90000, free=0, used=80000, allocated=allocated, spare=spare)
    assert ("diagnose.near-fragmented" in codes(text)) == (asked <= spare < asked * 5 / 4)


def test_fsdp_reduces_gradients_in_the_backward_pass():
    stack = (
        '  File "/x/torch/distributed/fsdp/_runtime_utils.py", line 800, in _post_backward_hook\n'
        "    _reduce_grad(state, handle)\n"
    )
    assert diagnose_log([(stack + OOM.format(asked=448, total=24000, free=300)).encode()]).phase == "backward"


HIP = "torch.OutOfMemoryError: HIP out of memory. Tried to allocate {asked} MiB. GPU 0 has a total capacity of "
HIP += "{total} MiB of which {free} MiB is free. Of the allocated memory {allocated} MiB is allocated by PyTorch, and "
HIP += "70 MiB is reserved by PyTorch but unallocated."


def test_a_gpu_that_may_share_the_memory_of_the_host_shows_no_other_process():
    log = HIP.format(asked=3000, total=131072, free=700, allocated=40000)
    assert codes(log) >= {"diagnose.outside-shared"}
    assert diagnose_log([log.encode()]).cause == "unknown"
    assert diagnose_log([log.replace("HIP", "CUDA").encode()]).cause == "other_process"


@pytest.mark.parametrize(
    ("asked", "free", "memory"),
    [(400, 799, "device"), (400, 800, "unknown"), (9400, 9500, "unknown"), (9400, 9499, "device")],
)
def test_a_card_with_room_refuses_for_another_reason(asked, free, memory):
    """10000 MiB in total: twice what is asked is free, or all of it but a twentieth part and no less than is asked."""
    found = diagnose_log([HIP.format(asked=asked, total=10000, free=free, allocated=30).encode()])
    assert found.memory == memory
    assert ("diagnose.roomy" in {message.code for message in found.explains}) == (memory == "unknown")


def test_a_stack_that_python_dumps_begins_with_the_innermost_call():
    log = (
        "Fatal Python error: Aborted\n\nCurrent thread 0x00007f95ca716740 (most recent call first):\n"
        '  File "/x/torch/nn/functional.py", line 373 in linear\n'
        '  File "/x/sglang/srt/model_executor/cuda_graph_runner.py", line 212 in capture_one_batch_size\n'
        '  File "/x/sglang/srt/managers/scheduler.py", line 218 in __init__\n'
        "RuntimeError: CUDA error: out of memory\n"
    )
    assert diagnose_log([log.encode()]).phase == "graph_capture"


def test_a_path_that_a_box_was_too_narrow_for_is_one():
    log = (
        "│ /home/someone/env/lib/python3.10/site-packages/transformers/trainer. │\n"
        "│ py:2348 in _save_checkpoint                                          │\n"
        "│                                                                      │\n"
        "│ ❱ 2348 │   │   self.push(output_dir)                                 │\n"
        "╰──────────────────────────────────────────────────────────────────────╯\n"
        "OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    )
    assert diagnose_log([log.encode()]).phase == "checkpoint"
