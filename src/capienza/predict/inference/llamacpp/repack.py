"""Host weights in the layout that a CPU's kernels want: a second copy beside the mapped file.

Legend: row elements of one row; for each block of a row AMX adds 4 bytes of compensation (q8_0, q4_k, q5_k) or 2
(iq4_xs). Only matrix multiplications with plain matrices are repacked; the other layouts keep the size.
Sources: ggml-cpu/amx/amx.cpp and mmq.cpp (`get_row_size`), ggml-cpu/repack.cpp of llama.cpp at 0c1e57098.
"""

from __future__ import annotations

from capienza.formats.blocks import BLOCKS
from capienza.formats.tensor import Tensor
from capienza.predict.inference.llamacpp.runtime import Repack

BUFFERS: dict[Repack, str] = {"amx": "AMX", "avx2": "CPU_REPACK", "neon": "CPU_REPACK"}
AMX_ROWS = {"q4_0": 32, "q4_1": 32, "q8_0": 32, "q4_k": 256, "q5_k": 256, "q6_k": 256, "iq4_xs": 256, "fp16": 16}
AMX_EXTRA = {"q8_0": 4, "q4_k": 4, "q5_k": 4, "iq4_xs": 2}
INTERLEAVED: dict[Repack, dict[str, int]] = {
    "avx2": {"q4_0": 8, "q4_k": 8, "iq4_nl": 8, "mxfp4": 8},
    "neon": {"q4_0": 4, "q4_k": 8, "q5_k": 8, "q6_k": 8, "iq4_nl": 4, "mxfp4": 4, "q8_0": 4},
}
"""Rows that are woven together, by format."""


def repacked_bytes(tensor: Tensor, repack: Repack) -> int | None:
    """Bytes of the repacked copy of a matrix; None when its kernels take it as it is."""
    if repack == "amx":
        return _amx_bytes(tensor)
    rows = INTERLEAVED.get(repack, {}).get(tensor.dtype)
    is_matrix = len(tensor.shape) == 2 or (len(tensor.shape) == 3 and "_exps" in tensor.name)
    return tensor.bytes if rows and is_matrix and tensor.shape[-2] % rows == 0 else None


def _amx_bytes(tensor: Tensor) -> int | None:
    """The tiles of AMX, 32 rows at a time; experts are not taken."""
    unit = AMX_ROWS.get(tensor.dtype)
    if unit is None or len(tensor.shape) != 2 or tensor.shape[-1] % unit or tensor.shape[-2] % 32:
        return None
    blocks = tensor.elements // BLOCKS[tensor.dtype].elements
    return tensor.bytes + blocks * AMX_EXTRA.get(tensor.dtype, 0)
