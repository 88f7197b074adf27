"""What a rank of a distributed run takes of its card outside PyTorch: CUDA context, kernels' code, NCCL.

No formula is known for what NCCL takes: it depends on the links, the algorithms it finds and the release. So these are
measured spans, each with where it was measured; the context alone is not added to them.
"""

from __future__ import annotations

import msgspec

from capienza.units import MIB


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """Least, usual and most of what was measured on a platform, and how often; `source` says where."""

    platform: str
    least_bytes: int
    usual_bytes: int
    most_bytes: int
    runs: int
    source: str


GH200_NODE = Span(
    platform="GH200 96 GB, four to a node, NCCL of NVIDIA's container 24.10, tensor parallel over four",
    least_bytes=2901 * MIB,
    usual_bytes=3151 * MIB,
    most_bytes=3883 * MIB,
    runs=10,
    source=(
        "driver's memory.used minus max_memory_reserved of ten Megatron runs, 1 to 16 nodes: "
        "github.com/eth-easl/sailor, "
        "sailor/Planner/baselines/Aceso/aceso_validation_clariden/runtime/OPT-350/memory/csv"
    ),
)
COMMUNICATOR_BYTES = 500_000_000
"""A communicator more, as where DeepSpeed makes groups of its own beside Megatron's: about half a gigabyte.

The figure of Fujii et al. 2024 (arXiv 2411.06465), in their calculator; NVIDIA gives none.
"""
