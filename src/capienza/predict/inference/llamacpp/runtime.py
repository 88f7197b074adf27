"""How a llama.cpp run was started, and the sizes that it makes of the request.

Legend: batch tokens of one decode call, ubatch those computed at once, sequence one of the `n_seq_max` conversations,
stream a cache of its own (one for all when unified). Defaults are those of llama.cpp's own tools.
Source: the constructor of `llama_context` (llama-context.cpp at 0c1e57098); earlier rules in `rules`.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from capienza.predict.inference.llamacpp.backend import padded
from capienza.predict.inference.llamacpp.rules import CURRENT, Era

FlashAttention = Literal["on", "off", "auto"]
SplitMode = Literal["none", "layer", "row", "tensor"]
Repack = Literal["none", "amx", "avx2", "neon"]

ALL_LAYERS = -1


class LlamaRuntime(msgspec.Struct, frozen=True, kw_only=True):
    """The options of one run; `devices` are its GPUs in order, by ggml's names ("CUDA0"); none: CPU only.

    `tensor_split` None: layers are shared out by the free memory of each device, `free_bytes` (None: equal).
    `repack` is what the CPU's kernels ask for, when no device has pinned memory to hold host weights.
    `n_outputs` None: as many rows of logits as the server of that build reserves; `snapshots` the states that
    speculative decoding can go back to (`n_rs_seq`); `f16_copies`: CUDA keeps f16 copies of a quantised layer.
    """

    devices: tuple[str, ...] = ()
    n_ctx: int = 0
    n_batch: int = 2048
    n_ubatch: int = 512
    n_seq_max: int = 1
    kv_unified: bool = False
    cache_type_k: str = "fp16"
    cache_type_v: str = "fp16"
    flash_attn: FlashAttention = "auto"
    n_gpu_layers: int = ALL_LAYERS
    split_mode: SplitMode = "layer"
    main_gpu: int = 0
    tensor_split: tuple[float, ...] | None = None
    free_bytes: tuple[int, ...] | None = None
    swa_full: bool = False
    kv_offload: bool = True
    op_offload: bool = True
    n_cpu_moe: int = 0
    override_tensor: tuple[tuple[str, str], ...] = ()
    n_outputs: int | None = None
    snapshots: int = 0
    embeddings: bool = False
    use_mmap: bool = True
    repack: Repack = "none"
    f16_copies: bool = False
    is_dry_run: bool = False
    """The engine's own estimate (`--fit`, no allocation): it forgets where nodes were pinned, and sees one graph."""
    mla: int = 0
    """ik_llama.cpp only: 1 keeps a transposed copy of the latent cache, 2 and 3 do not; 0: as the file is."""
    era: Era = CURRENT

    @property
    def used_devices(self) -> tuple[str, ...]:
        """The GPUs that weights may go to."""
        return self.devices[self.main_gpu : self.main_gpu + 1] if self.split_mode == "none" else self.devices

    @property
    def has_overrides(self) -> bool:
        """True when single tensors are placed by name."""
        return bool(self.n_cpu_moe or self.override_tensor)


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """Cells of one stream, streams, and the tokens and rows of the largest batch that is computed at once."""

    cells: int
    streams: int
    batch: int
    ubatch: int
    outputs: int


def sizes_of(runtime: LlamaRuntime, trained_context: int) -> Sizes:
    """The sizes that the engine makes of the request; without a stated context, that of the model's training."""
    era = runtime.era
    asked = runtime.n_ctx or trained_context
    batch = min(asked, runtime.n_batch)
    ubatch = min(batch, runtime.n_ubatch or runtime.n_batch)
    context = padded(asked, era.context_padding)
    streams = 1 if runtime.kv_unified or not era.has_streams else runtime.n_seq_max
    cells = padded(context // streams, era.cell_padding)
    rows = batch if era.reserves_all_rows else runtime.n_seq_max * (1 + runtime.snapshots)
    outputs = min(ubatch, runtime.n_outputs or rows)
    return Sizes(cells=cells, streams=streams, batch=batch, ubatch=min(ubatch, cells * streams), outputs=outputs)
