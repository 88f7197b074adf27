"""What kernels take for a moment beside their results.

A sum over many rows is cut into blocks of threads that meet in a buffer: `column_sum_bytes` follows `setReduceConfig`
of native/cuda/Reduce.cuh (2.13) for rows that lie one after the other and fp32 sums, with the multiprocessors of an
A100; a larger card takes somewhat more.
"""

from __future__ import annotations

import math

PROCESSORS, THREADS = 108, 2048
MOST_THREADS, WARP = 512, 32
FEWEST_VALUES, MOST_VALUES = 16, 256
FP32_BYTES = 4


def column_sum_bytes(columns: int, rows: int) -> int:
    """The buffer for the sums of `columns`, each over `rows` numbers; 0 where no column is cut."""
    vector = math.gcd(columns, 4)
    width = _power(columns // vector, MOST_THREADS // vector)
    most = MOST_THREADS // vector
    height = min(_power(rows, most), most // min(width, WARP))
    width = min(width, most // height)
    if rows < min(height * 16, MOST_VALUES):
        return 0
    values = -(-rows // height)
    grid = -(-(columns // vector) // width)
    target = PROCESSORS * (THREADS // (width * height))
    if values < MOST_VALUES or grid > target:
        return 0
    blocks = max(min(-(-target // grid), -(-values // FEWEST_VALUES)), -(-values // MOST_VALUES))
    return FP32_BYTES * columns * blocks * width * vector if blocks > 1 else 0


def _power(size: int, most: int) -> int:
    return most if size >= most else 1 << (max(size, 1).bit_length() - 1)
