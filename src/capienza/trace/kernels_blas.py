"""What matrix products take besides their result: the workspaces of cuBLAS, and copies of operands it cannot read.

A workspace belongs to a handle and a stream. Every thread has a handle of its own, so a program that trains has two:
that of the main thread and that of autograd's. It is taken from the caching allocator at the first product and stays.
Sources: aten/src/ATen/cuda/CublasHandlePool.cpp (about 2.13, lines 168-370), aten/src/ATen/native/cuda/Blas.cpp
(`prepare_matrix_for_cublas`, commit 002253ce), bitsandbytes 0.50.2 backends/cuda/ops.py, lines 584-990.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

from capienza.errors import phrase
from capienza.trace.kernels_call import PERSISTENT, Asked, Card, ScratchRow, Table, device_index

MAIN, AUTOGRAD = "main", "autograd"
CUBLAS = {
    MAIN: phrase("cuBLAS: workspace of the main thread"),
    AUTOGRAD: phrase("cuBLAS: workspace of autograd's thread"),
}
CUBLASLT = {
    MAIN: phrase("cuBLASLt: workspace of the main thread"),
    AUTOGRAD: phrase("cuBLASLt: workspace of autograd's thread"),
}
LAID_OUT = phrase("cuBLAS: operand that it cannot read, copied")
GROUPED = phrase("grouped product: pointers and workspace of CUTLASS")
WEIGHT = phrase("4-bit weight, dequantised")
SCALES = phrase("4-bit scales, dequantised")

KIB, MIB = 1 << 10, 1 << 20
PLAIN_WORKSPACE_BYTES = 2 * 4096 * KIB + 8 * 16 * KIB
LARGE_WORKSPACE_BYTES = 32 * MIB
LT_WORKSPACE_BYTES = MIB
POOL_SOURCE = "CublasHandlePool.cpp, parseChosenWorkspaceSize"
COPY_SOURCE = "Blas.cpp, prepare_matrix_for_cublas"
CONFIGURED = re.compile(r":([0-9]+):([0-9]+)")
SMALLEST_PRODUCT_DEQUANTISED, LARGEST_PRODUCT_FUSED = 5, 1536
"""Rows of a product with a 4-bit weight: fused below the first, dequantised above the second."""


def workspace_bytes(card: Card, configured: str | None = None) -> int:
    """The workspace of cuBLAS, in bytes. `configured` as in CUBLAS_WORKSPACE_CONFIG (`:4096:8` is 8 times 4096 KiB)."""
    sizes = [int(size) * int(count) * KIB for size, count in CONFIGURED.findall(configured or "")]
    if sizes:
        return sum(sizes)
    major = card.capability[0]
    large = major in (9, 10, 12) if card.torch >= (2, 11) else card.capability == (9, 0)
    return LARGE_WORKSPACE_BYTES if large else PLAIN_WORKSPACE_BYTES


def _workspace(asked: Asked, tensor: Any) -> ScratchRow:
    thread = AUTOGRAD if asked.in_backward else MAIN
    size = workspace_bytes(asked.card, os.environ.get("CUBLAS_WORKSPACE_CONFIG"))
    verified = asked.card.torch >= (2, 13) or asked.card.capability[0] not in (10, 12)
    key = f"cublas {thread} {device_index(tensor)}"
    return ScratchRow(CUBLAS[thread], size, POOL_SOURCE, PERSISTENT, key, verified)


def _lt_workspace(asked: Asked, tensor: Any) -> Iterator[ScratchRow]:
    """Before 2.11 cuBLASLt had a block of its own; since then it shares that of cuBLAS."""
    if asked.card.torch >= (2, 11) and os.environ.get("TORCH_CUBLASLT_UNIFIED_WORKSPACE") != "0":
        return
    thread = AUTOGRAD if asked.in_backward else MAIN
    key = f"cublaslt {thread} {device_index(tensor)}"
    source = "CublasHandlePool.cpp, parseCUDABlasLtWorkspaceSize"
    yield ScratchRow(CUBLASLT[thread], LT_WORKSPACE_BYTES, source, PERSISTENT, key, False)


def _copies(*operands: Any) -> Iterator[ScratchRow]:
    for operand in operands:
        if not _is_readable(operand):
            size = operand.numel() * operand.dtype.itemsize
            yield ScratchRow(LAID_OUT, size, COPY_SOURCE)


def _is_readable(matrix: Any) -> bool:
    """Can cuBLAS read the last two dimensions as they lie?"""
    rows, columns = matrix.shape[-2:]
    row_step, column_step = matrix.stride()[-2:]
    if rows <= 1 or columns <= 1:
        return bool(row_step > 0 and column_step > 0)
    by_rows = column_step == 1 and row_step >= columns
    return bool(by_rows or (row_step == 1 and column_step >= rows))


def _product(first: int) -> Any:
    def rule(asked: Asked) -> Iterable[ScratchRow]:
        left, right = asked.at(first), asked.at(first + 1)
        yield _workspace(asked, left)
        if first:
            yield from _lt_workspace(asked, left)
        if left.dim() >= 2 and right.dim() >= 2:
            yield from _copies(left, right)

    return rule


def _of_vectors(asked: Asked) -> Iterable[ScratchRow]:
    yield _workspace(asked, asked.at(0))


def _scaled(asked: Asked) -> Iterable[ScratchRow]:
    yield from _lt_workspace(asked, asked.at(0))
    yield _workspace(asked, asked.at(0))


def _grouped(_asked: Asked) -> Iterable[ScratchRow]:
    yield ScratchRow(GROUPED, None, "native/cuda/GroupMM.cu", verified=False)


def _four_bit(asked: Asked) -> Iterable[ScratchRow]:
    """Dequantised whole for many rows. Between the limits it depends on the card: it is counted as dequantised."""
    activations, (columns, inner) = asked.at(0), asked.at(2)
    rows = activations.numel() // max(activations.shape[-1], 1)
    if rows < SMALLEST_PRODUCT_DEQUANTISED:
        return
    source = "bitsandbytes 0.50.2, backends/cuda/ops.py:905-990"
    certain = rows > LARGEST_PRODUCT_FUSED
    size = columns * inner * activations.dtype.itemsize
    yield ScratchRow(WEIGHT, size, source, verified=certain)
    nested = asked.at(7, "absmax_8bit")
    if nested is not None:
        yield ScratchRow(SCALES, 2 * nested.numel() * 4, source, verified=certain)
    yield _workspace(asked, activations)


TABLE: Table = {
    "aten.mm": _product(0),
    "aten.bmm": _product(0),
    "aten.mv": _product(0),
    "aten.addmm": _product(1),
    "aten._addmm_activation": _product(1),
    "aten.baddbmm": _product(1),
    "aten.baddbmm_": _product(1),
    "aten.addbmm": _product(1),
    "aten.addmv": _product(1),
    "aten.addmm_": _product(1),
    "aten.linear": _product(0),
    "aten._int_mm": _product(0),
    "aten.dot": _of_vectors,
    "aten.vdot": _of_vectors,
    "aten._scaled_mm": _scaled,
    "aten._grouped_mm": _grouped,
    "aten._scaled_grouped_mm": _grouped,
    "bitsandbytes.gemm_4bit": _four_bit,
}
