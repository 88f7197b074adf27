"""What fused attention takes besides its results.

B batch, H heads of the query, G of key and value, L queries, S keys, E size of a head. fp32 has 4 bytes.
flash backward   dQ accumulator B*round(L,128)*H*round(E, 32 up to 128, else 64) fp32, sums B*H*round(L,128) fp32,
                 with G < H gradients of key and value for all H heads
flash packed     as above, with total + 128*B rows for B*round(L,128)
flash forward    few queries: the keys are split n ways, and n partial results are kept in fp32
efficient        backward: sums B*H*L fp32, and a workspace that holds dQ (and dK, dV for wide heads) in fp32 blocks
cuDNN            a workspace that its plan asks for: not known; the part the graph itself asks for is
Sources: transformers/cuda/flash_attn/flash_api.cpp (commit 03b7c19d), transformers/cuda/attention_backward.cu
(00afd8f2), mem_eff_attention/kernel_backward.h, kernel_forward.h and kernels/cutlassB.h (2.13.0, in the wheel),
cudnn/MHA.cpp (02a4a0fe), scaled_dot_product_flash_attention.h of cudnn-frontend.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from capienza.errors import phrase
from capienza.trace.kernels_call import Asked, ScratchRow, Table, ceiling, copied, rounded

FP32_BYTES = 4
FLASH_ROWS, SPLIT_ROWS, MOST_SPLITS = 128, 64, 128
GOOD_ENOUGH, NEARLY_FULL = 0.85, 0.8
FLASH, EFFICIENT = "flash_api.cpp", "kernel_backward.h, Params::workspace_size"
LARGE_SHARED_MEMORY = ((8, 0), (9, 0), (10, 0), (10, 3))
"""Capabilities with at least 160 KiB of shared memory a block, which 128 x 128 tiles need."""
BLOCK_HEADER_BYTES = 16
TARGET_BLOCKS = 200

PARTIAL_RESULTS = phrase("flash: partial results")
PARTIAL_SUMS = phrase("flash: partial sums")
FLASH_QUERY = phrase("flash: gradient of the query in fp32")
FLASH_KEY = phrase("flash: gradient of the key for every head")
FLASH_VALUE = phrase("flash: gradient of the value for every head")
FLASH_SUMS = phrase("flash: sums over the keys")
EFFICIENT_RESULT = phrase("efficient: result in fp32")
EFFICIENT_SUMS = phrase("efficient: sums over the keys")
EFFICIENT_WORKSPACE = phrase("efficient: workspace")
CUDNN_PLAN = phrase("cuDNN attention: workspace of its plan")
CUDNN_QUERY = phrase("cuDNN attention: gradient of the query in fp32")
CUDNN_SUMS = phrase("cuDNN attention: sums over the keys")
MASKED = phrase("softmax: which scores are masked")
UNMASKED = phrase("softmax: scores before they are masked")


def flash_head(size: int) -> int:
    """The size of a head as the flash kernels round it."""
    return rounded(rounded(size, 8), 32 if size <= 128 else 64)


def splits(blocks: int, processors: int, key_blocks: int) -> int:
    """Into how many parts flash cuts the keys (flash_api.cpp, `num_splits_heuristic`)."""
    if blocks >= NEARLY_FULL * processors:
        return 1
    most = min(MOST_SPLITS, processors, key_blocks)
    efficiency = {}
    for count in range(1, most + 1):
        if count == 1 or ceiling(key_blocks, count) != ceiling(key_blocks, count - 1):
            waves = blocks * count / processors
            efficiency[count] = waves / ceiling(blocks * count, processors)
    best = max(efficiency.values(), default=0)
    return next((count for count, value in efficiency.items() if value >= GOOD_ENOUGH * best), 1)


def _flash_forward(asked: Asked) -> Iterable[ScratchRow]:
    query, key = asked.at(0), asked.at(1)
    batch, heads, queries, size = query.shape
    return _split(asked, batch, heads, key.shape[1], queries, key.shape[2], size, asked.at(3, "dropout_p", 0.0))


def _flash_forward_plain(asked: Asked) -> Iterable[ScratchRow]:
    """The operator below, with its operands as (B, L, H, E), or packed as (total, H, E)."""
    query, key = asked.at(0), asked.at(1)
    if asked.at(3, "cum_seq_q") is not None:
        return ()
    batch, queries, heads, size = query.shape
    return _split(asked, batch, heads, key.shape[2], queries, key.shape[1], size, asked.at(7, "dropout_p", 0.0))


def _split(
    asked: Asked, batch: int, heads: int, key_heads: int, queries: int, keys: int, size: int, dropout: float
) -> Iterator[ScratchRow]:
    if dropout or 0 in (batch, queries, keys, key_heads):
        return
    if queries == 1 and heads > key_heads:
        queries, heads = heads // key_heads, key_heads
    block = 256 if size <= 64 else 128 if size <= 128 else 64
    blocks = batch * heads * ceiling(queries, SPLIT_ROWS)
    count = splits(blocks, 2 * asked.card.processors, ceiling(keys, block))
    if count > 1:
        rows = count * batch * heads * queries * FP32_BYTES
        source = f"{FLASH}, set_params_splitkv"
        exact = bool(asked.card.multiprocessors)
        yield ScratchRow(PARTIAL_RESULTS, rows * flash_head(size), source, verified=exact)
        yield ScratchRow(PARTIAL_SUMS, rows, source, verified=exact)


def _flash_backward(asked: Asked) -> Iterable[ScratchRow]:
    query, key = asked.at(1), asked.at(2)
    batch, heads, queries, size = query.shape
    yield from copied(asked.at(0), "attention_backward.cu", (0, 2, 1, 3))
    yield from copied(asked.at(4), "attention_backward.cu", (0, 2, 1, 3))
    rows = batch * rounded(queries, FLASH_ROWS)
    yield from _gradients(asked, rows, heads, size, batch)
    yield from _all_heads(heads, key.shape[1], batch * key.shape[2], size, key.dtype.itemsize)


def _flash_backward_plain(asked: Asked) -> Iterable[ScratchRow]:
    query, key = asked.at(1), asked.at(2)
    yield from copied(asked.at(0), "attention_backward.cu")
    yield from copied(asked.at(4), "attention_backward.cu")
    heads, size = query.shape[-2:]
    starts = asked.at(6)
    if starts is None:
        rows, batch = query.shape[0] * rounded(query.shape[1], FLASH_ROWS), query.shape[0]
    else:
        batch = starts.numel() - 1
        rows = query.shape[0] + FLASH_ROWS * batch
    yield from _gradients(asked, rows, heads, size, batch)
    yield from _all_heads(heads, key.shape[-2], key.numel() // max(key.shape[-2] * size, 1), size, key.dtype.itemsize)


def _gradients(asked: Asked, rows: int, heads: int, size: int, batch: int) -> Iterator[ScratchRow]:
    if not rows:
        return
    parts = ceiling(asked.card.processors, batch * heads) if asked.deterministic else 1
    bytes_ = parts * rows * heads * flash_head(size) * FP32_BYTES
    exact = not asked.deterministic or bool(asked.card.multiprocessors)
    yield ScratchRow(FLASH_QUERY, bytes_, f"{FLASH}, mha_bwd", verified=exact)
    yield ScratchRow(FLASH_SUMS, rows * heads * FP32_BYTES, f"{FLASH}, mha_bwd")


def _all_heads(heads: int, key_heads: int, keys: int, size: int, item_bytes: int) -> Iterator[ScratchRow]:
    if heads != key_heads and keys:
        bytes_ = keys * heads * size * item_bytes
        for name in (FLASH_KEY, FLASH_VALUE):
            yield ScratchRow(name, bytes_, f"{FLASH}, mha_bwd")


def _efficient_forward(asked: Asked) -> Iterable[ScratchRow]:
    query, value = asked.at(0), asked.at(2)
    if max(query.shape[-1], value.shape[-1]) > 128 and query.dtype.itemsize == 2:
        size = query.shape[0] * query.shape[1] * query.shape[2] * value.shape[-1] * FP32_BYTES
        yield ScratchRow(EFFICIENT_RESULT, size, "kernel_forward.h, kNeedsOutputAccumulatorBuffer")


def _efficient_backward(asked: Asked) -> Iterable[ScratchRow]:
    query, key, value = asked.at(1), asked.at(2), asked.at(3)
    batch, heads, queries, size = query.shape
    yield from copied(asked.at(0), "attention_backward.cu", (0, 2, 1, 3))
    sums = batch * heads * queries * FP32_BYTES
    yield ScratchRow(EFFICIENT_SUMS, sums, "attention_backward.cu")
    if not sums or not key.shape[2]:
        return
    half, wide = query.dtype.itemsize == 2, value.shape[-1]
    rows, columns, in_registers = efficient_tile(max(size, wide), half, asked)
    staged = half and not in_registers
    dq = ceiling(queries, rows) * ceiling(size, columns) * (BLOCK_HEADER_BYTES + rows * columns * FP32_BYTES)
    count = _key_splits(asked, batch * heads, key.shape[2], columns, staged)
    dkv = count * columns * (rounded(size, rows) + rounded(wide, rows)) * FP32_BYTES if staged else 0
    workspace = batch * heads * rounded(dq + dkv, BLOCK_HEADER_BYTES)
    # The product is gone before the workspace is taken. Which tile fits in shared memory is not in the source.
    product = 0 if half and not (staged and asked.card.capability < (7, 5)) else sums * wide
    yield ScratchRow(EFFICIENT_WORKSPACE, max(workspace, product), EFFICIENT, verified=False)


def efficient_tile(size: int, half: bool, asked: Asked) -> tuple[int, int, bool]:
    """Rows and columns of a tile of the efficient backward kernel, and whether dK and dV stay in registers.

    The first kernel of kernels/cutlassB.h that takes the size and fits in the card's shared memory.
    """
    if size <= 64:
        return 64, 64, half
    if half and size <= 128 and asked.card.capability[0] >= 8:
        dropout = asked.at(9, "dropout_p", 0.0)
        if asked.card.capability in ((8, 6), (8, 9)) and size <= 96 and not dropout:
            return 128, 64, True
        if asked.card.capability in LARGE_SHARED_MEMORY:
            return 128, 128, True
        return 64, 64, False
    if asked.card.capability in LARGE_SHARED_MEMORY or asked.card.capability == (7, 0):
        return 128, 64, half and size <= 128
    return 64, 64, False


def _key_splits(asked: Asked, pairs: int, keys: int, columns: int, staged: bool) -> int:
    """Into how many parts the keys are cut."""
    if asked.deterministic or asked.card.capability[0] < 7:
        return 1
    count = ceiling(keys, columns)
    if count * pairs >= 256 and keys <= 2 * columns:
        count = 1
    return max(min(count, TARGET_BLOCKS // max(pairs, 1)), 1) if staged else max(count, 1)


def _cudnn_forward(_asked: Asked) -> Iterable[ScratchRow]:
    yield ScratchRow(CUDNN_PLAN, None, "cudnn/MHA.cpp, get_workspace_size")


def _cudnn_backward(asked: Asked) -> Iterable[ScratchRow]:
    batch, heads, queries, size = asked.at(1).shape
    source = "cudnn-frontend, SDPABackwardNode"
    pairs = batch * heads * queries * FP32_BYTES
    yield ScratchRow(CUDNN_QUERY, pairs * size, source, verified=False)
    yield ScratchRow(CUDNN_SUMS, pairs, source, verified=False)
    yield ScratchRow(CUDNN_PLAN, None, "cudnn/MHA.cpp, get_workspace_size")


def _safe_softmax(asked: Asked) -> Iterable[ScratchRow]:
    scores: Any = asked.at(0)
    rows = scores.numel() // max(scores.shape[asked.at(1, "dim", -1)], 1)
    yield ScratchRow(MASKED, scores.numel() + rows, "attention.cpp, _safe_softmax")
    if asked.card.torch < (2, 10):
        again = scores.numel() * scores.dtype.itemsize
        yield ScratchRow(UNMASKED, again, "attention.cpp, _safe_softmax", verified=False)


TABLE: Table = {
    "aten._scaled_dot_product_flash_attention": _flash_forward,
    "aten._scaled_dot_product_flash_attention_backward": _flash_backward,
    "aten._flash_attention_forward": _flash_forward_plain,
    "aten._flash_attention_backward": _flash_backward_plain,
    "aten._scaled_dot_product_efficient_attention": _efficient_forward,
    "aten._scaled_dot_product_efficient_attention_backward": _efficient_backward,
    "aten._scaled_dot_product_cudnn_attention": _cudnn_forward,
    "aten._scaled_dot_product_cudnn_attention_backward": _cudnn_backward,
    "aten._safe_softmax": _safe_softmax,
}
