"""The sizes of blocks and segments.

    requested    what the program asks for
    rounded      the block's size: up to 512 B, or to a division of the power of two below
    segment      what is asked of the device when no cached block fits

Source: round_size and get_allocation_size in c10/cuda/CUDACachingAllocator.cpp, AllocatorConfig.cpp for the divisions.
"""

from __future__ import annotations

from collections.abc import Sequence

MIB = 2**20
SMALLEST_BLOCK = 512
SMALL_SIZE = MIB
SMALL_SEGMENT = 2 * MIB
LARGE_SEGMENT = 20 * MIB
SMALLEST_OWN_SEGMENT = 10 * MIB
SEGMENT_STEP = 2 * MIB
LARGEST_REQUEST = 2**60
DIVISION_INTERVALS = 16
"""Intervals of sizes with divisions of their own: below 2 MiB, from 2 MiB, from 4 MiB, ... from 32 GiB."""


def rounded_bytes(requested: int, divisions: Sequence[int] = ()) -> int:
    """The size of the block for a request. `divisions` holds one number for each interval, or nothing."""
    if divisions:
        interval = min(max(requested.bit_length() - MIB.bit_length(), 0), DIVISION_INTERVALS - 1)
        parts = divisions[interval]
        if parts > 1 and requested > SMALLEST_BLOCK * parts:
            step = (1 << requested.bit_length() - 1) // parts
            return -(-requested // step) * step
    return -(-requested // SMALLEST_BLOCK) * SMALLEST_BLOCK


def segment_bytes(size: int, large_segment_bytes: int = LARGE_SEGMENT) -> int:
    """What is asked of the device for a block of this size."""
    if size <= SMALL_SIZE:
        return SMALL_SEGMENT
    if size < SMALLEST_OWN_SEGMENT:
        return large_segment_bytes
    return -(-size // SEGMENT_STEP) * SEGMENT_STEP
