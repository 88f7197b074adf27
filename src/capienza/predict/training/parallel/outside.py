"""What a rank of a distributed run takes of its card outside PyTorch: CUDA context, kernels' code, NCCL.

What NCCL takes depends on the links, the algorithms it finds and the release: its sources give the size of a buffer,
not how many there are. So there are measured spans, each with where it was measured, the context not added to them; and
for other platforms a span from the fewest buffers to the most.
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
CONNECTION_BYTES = (1 << 22) + 120 * 640 * 8 * 8 + 8 * 512 * 8 * 16
"""One connection's buffers: 4 MiB for the protocol Simple, 4,915,200 B for LL128, 512 KiB for LL.

NCCL src/init.cc (DEFAULT_BUFFSIZE, DEFAULT_LL128_BUFFSIZE, DEFAULT_LL_BUFFSIZE) and src/transport/p2p.cc: the receiver
holds all three. "Memory usage is linearly tied to the number of channels; a ring has 2 connections whatever the scale;
more communicators, more memory" (NVIDIA, github.com/NVIDIA/nccl issue 864).
"""
RING_SETS, ALL_SETS = 1, 3
"""Sets of receive buffers of a rank in each channel: a ring's, and a tree's from above and from below."""
LEAST_CHANNELS, USUAL_CHANNELS, MOST_CHANNELS = 2, 16, 32
"""Two are the least that NCCL makes (PCIe), 32 its limit (MAXCHANNELS); 16 collective channels are what it reports on
eight H800 (github.com/NVIDIA/nccl issue 892), 24 on others of Hopper (issue 1781).

Sixteen with ring and tree are 462 MB, beside the half gigabyte that Fujii et al. 2024 (arXiv 2411.06465) count for a
communicator, and the 0.5 to 2 GiB that a first collective was seen to take (stas00/ml-engineering).
"""


def communicator_bytes(channels: int = USUAL_CHANNELS, sets: int = ALL_SETS) -> int:
    """Buffers of one communicator on one GPU: as where DeepSpeed makes groups of its own beside Megatron's."""
    return channels * sets * CONNECTION_BYTES
