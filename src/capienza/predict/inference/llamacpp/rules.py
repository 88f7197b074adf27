"""What changed between builds of llama.cpp, and what its forks do otherwise, as far as memory goes.

Legend: cell one token's place in a cache; window cache the smaller cache of windowed blocks; mask one number for each
cell and token of a batch.
Sources: pull requests 13194 (window cache, May 2025), 14363 (a stream for each sequence, July 2025), 16148 and later
(mask as f16 where flash attention reads it, autumn 2025) of llama.cpp; ik_llama.cpp keeps the earlier rules. Build
numbers are those of the releases that first held the change.
"""

from __future__ import annotations

from typing import Literal

import msgspec

WindowRule = Literal["none", "batch", "ubatch"]


class Era(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of some builds.

    `windows`: how windowed blocks are cached: in full ("none"), or in window x sequences + batch or ubatch cells.
    `mask_is_f16`: the mask that flash attention reads is made as f16, not converted from f32 on the device.
    `key_rows`: what a row of the K tensor is, which a device may complete: all heads of a token, one head, or no rows
    at all (V has them only with "layer"). `is_fork`: ik_llama.cpp, whose graphs are its own.
    """

    context_padding: int = 256
    cell_padding: int = 256
    window_padding: int = 256
    has_streams: bool = True
    windows: WindowRule = "ubatch"
    mask_is_f16: bool = True
    has_vector_input: bool = True
    rotates: bool = True
    key_rows: Literal["layer", "head", "none"] = "layer"
    is_fork: bool = False


ROLLS_BACK = frozenset({
    "bailingmoe3", "deepseek4", "glm5-next", "kimi-k3", "lfm2", "lfm2moe", "nemotron_h", "nemotron_h_moe", "qwen35",
    "qwen35moe", "qwen4exp",
})  # fmt: skip
"""Architectures that keep earlier states for speculative decoding; the others ignore the request."""
CURRENT = Era()
STREAMS_BUILD = 5890
WINDOWS_BUILD = 5427
FEW_PADDING_BUILD = 6700


def era_of(build: int | None, *, is_fork: bool = False) -> Era:
    """The rules of one build; without a number, those of today."""
    if is_fork:
        return Era(
            context_padding=1,
            cell_padding=1,
            has_streams=False,
            windows="none",
            mask_is_f16=False,
            key_rows="head",
            is_fork=True,
        )
    if build is None or build >= FEW_PADDING_BUILD:
        return CURRENT
    if build >= STREAMS_BUILD:
        return Era(mask_is_f16=False)
    if build >= WINDOWS_BUILD:
        return Era(has_streams=False, windows="batch", window_padding=32, mask_is_f16=False)
    return Era(has_streams=False, windows="none", mask_is_f16=False, key_rows="none")
