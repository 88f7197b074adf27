"""What changed between builds of llama.cpp, and what its forks do otherwise, as far as memory goes.

Legend: cell one token's place in a cache; window cache the smaller cache of windowed blocks; mask one number for each
cell and token of a batch; stream a cache of its own for each sequence.
Sources: pull requests of llama.cpp 13194 (window cache, May 2025), 14363 (streams, July 2025), 18550 (a place for
vectors beside the tokens, January 2026), 21038 (rotated heads in quantised caches, March 2026), 23764 (mask made as f16
where flash attention reads it, May 2026), 29622 (tokens and vectors in one batch, October 2026). From about May 2026
servers reserve logits only for the rows that sequences need; measured logs show both before and after. A build number
is that of a release near the change.
"""

from __future__ import annotations

from typing import Literal

import msgspec

WindowRule = Literal["none", "batch", "ubatch"]


class Era(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of some builds.

    `windows`: how windowed blocks are cached: in full ("none"), or in window x sequences + batch or ubatch cells.
    `mask_is_f16`: the mask that flash attention reads is made as f16, not converted from f32 on the device.
    `has_vector_input`: every graph has a place for vectors given instead of tokens; `has_mixed_input`: one more for a
    batch of both, save for the architectures `NEVER_MIXED`. `rotates`: a quantised cache holds rotated heads.
    `reserves_all_rows`: logits are reserved for every token of a batch unless the run says otherwise. `key_rows`:
    what a row of the K tensor is, which a device may complete: all heads of a token, one head, or no rows at all
    (V has them only with "layer"). `is_fork`: ik_llama.cpp, whose graphs are its own.
    """

    context_padding: int = 256
    cell_padding: int = 256
    window_padding: int = 256
    has_streams: bool = True
    windows: WindowRule = "ubatch"
    mask_is_f16: bool = True
    has_vector_input: bool = True
    has_mixed_input: bool = False
    rotates: bool = True
    reserves_all_rows: bool = False
    key_rows: Literal["layer", "head", "none"] = "layer"
    is_fork: bool = False


ROLLS_BACK = frozenset({
    "bailingmoe3", "deepseek4", "glm5-next", "kimi-k3", "lfm2", "lfm2moe", "nemotron_h", "nemotron_h_moe", "qwen35",
    "qwen35moe", "qwen4exp",
})  # fmt: skip
"""Architectures that keep earlier states for speculative decoding; the others ignore the request."""
CURRENT = Era()
FORK = Era(
    context_padding=1,
    cell_padding=1,
    has_streams=False,
    windows="none",
    mask_is_f16=False,
    has_vector_input=False,
    rotates=False,
    reserves_all_rows=True,
    key_rows="head",
    is_fork=True,
)
WINDOWS_BUILD, STREAMS_BUILD, VECTORS_BUILD, ROTATION_BUILD, MASK_BUILD = 5427, 5890, 7700, 8600, 9371
MIXED_BUILD = 11400
NEVER_MIXED = frozenset({"cogvlm", "deepseek4", "granite_switch", "eagle3", "dflash", "gemma4-assistant"})


def era_of(build: int | None, *, is_fork: bool = False) -> Era:
    """The rules of one build; without a number, those of `MASK_BUILD`, as the notes of an answer say."""
    if is_fork:
        return FORK
    if build is None:
        return CURRENT
    has_windows, has_streams = build >= WINDOWS_BUILD, build >= STREAMS_BUILD
    return Era(
        window_padding=256 if has_streams else 32,
        has_streams=has_streams,
        windows="ubatch" if has_streams else "batch" if has_windows else "none",
        mask_is_f16=build >= MASK_BUILD,
        has_vector_input=build >= VECTORS_BUILD,
        has_mixed_input=build >= MIXED_BUILD,
        rotates=build >= ROTATION_BUILD,
        reserves_all_rows=build < MASK_BUILD,
        key_rows="layer" if has_windows else "none",
    )
