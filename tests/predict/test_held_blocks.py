"""The blocks and segments that loaded tensors take in PyTorch's allocator."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from models_at_hand import QWEN3_14B, QWQ_32B, serving

from capienza.predict.inference.blocks import joined_name, take
from capienza.predict.inference.weights import resident_weights
from capienza.predict.placement import Split
from capienza.units import GIB, MIB

SIZES = st.lists(st.integers(1, 40 * MIB), max_size=30)


@pytest.mark.parametrize(
    ("size", "allocated", "reserved"),
    [
        (1, 512, 2 * MIB),
        (MIB, MIB, 2 * MIB),
        (MIB + 1, MIB + 512, 20 * MIB),
        (19 * MIB // 2, 19 * MIB // 2, 20 * MIB),
        (10 * MIB, 10 * MIB, 10 * MIB),
        (11 * MIB, 12 * MIB, 12 * MIB),
        (21 * MIB // 2, 21 * MIB // 2, 12 * MIB),
    ],
)
def test_one_tensor(size: int, allocated: int, reserved: int) -> None:
    """A block above 1 MiB is split only when more than 1 MiB is left of it."""
    held = take([size])
    assert (held.allocated_bytes, held.reserved_bytes) == (allocated, reserved)


def test_a_freed_end_serves_a_later_tensor() -> None:
    assert take([21 * MIB // 2, 3 * MIB // 2]).reserved_bytes == 12 * MIB


@given(SIZES)
def test_nothing_is_smaller_than_its_bytes(sizes: list[int]) -> None:
    held = take(sizes)
    assert sum(sizes) <= held.allocated_bytes <= held.reserved_bytes
    assert held.allocated_bytes <= sum(sizes) + (MIB + 512) * len(sizes)


@given(SIZES, st.integers(1, 40 * MIB))
def test_one_tensor_more_never_takes_less(sizes: list[int], more: int) -> None:
    assert take([*sizes, more]).allocated_bytes >= take(sizes).allocated_bytes
    assert take([*sizes, more]).reserved_bytes >= take(sizes).reserved_bytes


def test_what_is_loaded_into_one_tensor_has_one_name() -> None:
    names = ("self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight")
    assert len({joined_name(name) for name in names}) == 1
    assert joined_name("mlp.up_proj.bias") == joined_name("mlp.gate_proj.bias") != joined_name("mlp.up_proj.weight")


@pytest.mark.parametrize(
    ("config", "ranks", "logged_gib", "table_share"),
    [(QWEN3_14B, 4, 7.08, 2), (QWQ_32B, 4, 15.54, 2)],
    ids=["Qwen3-14B", "QwQ-32B"],
)
def test_segments_explain_what_the_device_lost(config: dict, ranks: int, logged_gib: float, table_share: int) -> None:
    """SGLang's "mem usage" of the weights, with its rotary tables in fp32."""
    weights = resident_weights(serving(config, split=Split(tensor_parallel=ranks)))[0]
    expected = weights.device_bytes + (table_share - 1) * weights.table_bytes
    assert expected / GIB == pytest.approx(logged_gib, rel=0.001)
    assert weights.tensor_bytes / GIB < 0.985 * logged_gib
