"""The buffer in which the blocks of threads of a reduction meet.

A reduction that gives each block of threads too much to do is cut further: the blocks of one output meet in a buffer.
This follows `setReduceConfig` of native/cuda/Reduce.cuh (2.13.0, in the wheel), lines 62-215 and 1040-1196; four
recordings of a real card have these blocks, 0 bytes off (weights of RMS norm, 1024 wide, 512 to 4096 rows).
"""

from __future__ import annotations

import math

MOST_THREADS, WARP = 512, 32
FEWEST_VALUES, MOST_VALUES = 16, 256
INPUT_VECTOR, LEAST_VECTORISED = 4, 128
INT_BYTES = 4


def buffer_bytes(
    outputs: int,
    inputs: int,
    *,
    on_fastest: bool,
    one_axis: bool,
    item_bytes: int,
    processors: int,
    threads_a_processor: int,
) -> tuple[int, int]:
    """The buffer in which blocks of threads meet and their counters, in bytes; zeros where an output is of one block.

    `inputs` are reduced to each of `outputs`; `on_fastest` where the reduced dimension is the one whose elements lie
    beside each other, `one_axis` where it is one; `item_bytes` of an accumulator. The card has so many `processors`.
    """
    vector = 1
    first, second = (inputs, outputs) if on_fastest else (outputs, inputs)
    if on_fastest and first >= LEAST_VECTORISED and one_axis:
        first //= INPUT_VECTOR
    elif not on_fastest:
        vector = math.gcd(outputs, 4)
        first //= vector
    width, height = _block(first, second, MOST_THREADS // vector)
    step_in, step_out = (width, 1) if on_fastest else (1, width)
    is_split = -(-inputs // step_in) >= min(height * 16, MOST_VALUES)
    step_in, step_out = (step_in * height, step_out) if is_split else (step_in, step_out * height)
    values = -(-inputs // step_in)
    grid = -(-(outputs // vector) // step_out)
    target = processors * (threads_a_processor // (width * height))
    if not (is_split and values >= MOST_VALUES and grid <= target):
        return 0, 0
    blocks = max(min(-(-target // max(grid, 1)), -(-values // FEWEST_VALUES)), -(-values // MOST_VALUES))
    if blocks <= 1:
        return 0, 0
    return item_bytes * outputs * blocks * (1 if on_fastest else width * vector), INT_BYTES * grid


def _block(first: int, second: int, most: int) -> tuple[int, int]:
    """Threads of a block, along the two dimensions."""
    first, second = (most if size >= most else 1 << (max(size, 1).bit_length() - 1) for size in (first, second))
    height = min(second, most // min(first, WARP))
    return min(first, most // height), height
