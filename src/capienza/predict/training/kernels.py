"""What kernels take for a moment beside their results, with the processors of an A100: a larger card takes more."""

from __future__ import annotations

from capienza.allocator.reductions import buffer_bytes

PROCESSORS, THREADS = 108, 2048
FP32_BYTES = 4


def column_sum_bytes(columns: int, rows: int) -> int:
    """The buffer for the sums of `columns`, each over `rows` numbers in fp32; 0 where no column is cut."""
    buffer, _ = buffer_bytes(
        columns,
        rows,
        on_fastest=False,
        one_axis=True,
        item_bytes=FP32_BYTES,
        processors=PROCESSORS,
        threads_a_processor=THREADS,
    )
    return buffer
