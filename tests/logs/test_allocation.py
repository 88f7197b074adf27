"""PyTorch's messages of every release: printed from drawn figures, read back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from capienza.logs.allocation import allocation_of
from capienza.logs.figures import size_bytes
from capienza.units import UNITS

amounts = st.integers(1, 2**38)


def printed(amount: int, unit: str | None = None) -> str:
    """As PyTorch's format_size prints."""
    unit = unit or next((name for name in ("GiB", "MiB", "KiB") if amount >= UNITS[name]), "bytes")
    return f"{amount} bytes" if unit == "bytes" else f"{amount / UNITS[unit]:.2f} {unit}"


def is_close(found: int | None, amount: int) -> bool:
    unit = next((UNITS[name] for name in ("GiB", "MiB", "KiB") if amount >= UNITS[name]), 1)
    return found is not None and abs(found - amount) <= 0.00501 * unit


@given(*[amounts] * 4, st.integers(0, 15))
def test_messages_of_1_x(asked, allocated, free, reserved, gpu):
    for word, name in (
        ("cached", "reserved_unallocated_bytes"),
        ("reserved in total by PyTorch", "reserved_total_bytes"),
    ):
        text = (
            f"CUDA out of memory. Tried to allocate {printed(asked)} (GPU {gpu}; 23.69 GiB total capacity; "
            f"{printed(allocated)} already allocated; {printed(free)} free; {printed(reserved)} {word})"
        )
        found = allocation_of(text)
        assert found.gpu == gpu
        assert is_close(found.figures["requested_bytes"], asked)
        assert is_close(found.figures["allocated_bytes"], allocated)
        assert is_close(found.figures["free_bytes"], free)
        assert is_close(found.figures[name], reserved)


@given(*[amounts] * 5, st.integers(0, 15))
def test_messages_of_2_x(asked, used, allocated, free, spare, gpu):
    text = (
        f"CUDA out of memory. Tried to allocate {printed(asked)}. GPU {gpu} has a total capacity of 79.15 GiB of which "
        f"{printed(free)} is free. Including non-PyTorch memory, this process has {printed(used)} memory in use. Of "
        f"the allocated memory {printed(allocated)} is allocated by PyTorch, and {printed(spare)} is reserved by "
        "PyTorch but unallocated."
    )
    found = allocation_of(text)
    assert found.gpu == gpu
    expected = {
        "requested": asked,
        "process": used,
        "allocated": allocated,
        "free": free,
        "reserved_unallocated": spare,
    }
    for name, amount in expected.items():
        assert is_close(found.figures[f"{name}_bytes"], amount)
    assert "other_process_bytes" not in found.figures


@given(st.integers(2**30, 2**34), st.integers(2**30, 2**34))
def test_other_processes_are_added(one, other):
    text = (
        "Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.00 GiB is free. Process 7 has "
        f"{printed(one)} memory in use. Process 8 has {printed(other)} memory in use. Including non-PyTorch memory, "
        "this process has 30.00 GiB memory in use."
    )
    assert abs(allocation_of(text).figures["other_process_bytes"] - one - other) <= 0.011 * 2**30


@given(st.text(max_size=300))
def test_any_text_is_answered(text):
    allocation_of(text)


def test_a_number_without_its_whole_unit_is_none():
    assert allocation_of("Tried to allocate 2.00 G").figures == {}
    assert size_bytes("2.00 GB") == 2 * 2**30
    assert size_bytes("2.00 GB", is_decimal=True) == 2 * 10**9
    assert size_bytes("4,294,967,296 bytes") == 2**32
    assert size_bytes("1900,50 MiB") == 1900 * 2**20 + 2**19
    assert size_bytes("3", "MiB") == 3 * 2**20
    assert size_bytes("none") is None
