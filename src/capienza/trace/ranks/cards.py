"""Which GPU is a rank's own, and what it put on others."""

from __future__ import annotations

from capienza.errors import Message, template
from capienza.trace.recording import Recording
from capienza.trace.run import Traced
from capienza.trace.streams import DEVICES

ELSEWHERE = template(
    "trace.rank-elsewhere",
    "rank {rank} also puts {size_bytes} on cuda:{index}, the GPU of another rank of its node; it is in no figure",
    "call torch.cuda.set_device with the local rank first, and give tensors that device",
)
NOT_CHOSEN = template(
    "trace.rank-not-chosen",
    "rank {rank} works on cuda:{index}, not on cuda:{local_rank}: with this program ranks of a node share a GPU",
    "call torch.cuda.set_device with the local rank first",
)


def own_gpu(traced: Traced) -> tuple[dict[int, str], tuple[Message, ...]]:
    """The names of the devices that count, by their number in the recording, and what is odd about the others."""
    recording, rank = traced.recording, traced.rank
    if rank is None:
        return {index: f"gpu:{index}" for index in recording.events}, ()
    local = rank % DEVICES if traced.device_type == "cuda" else 0
    if local in recording.events:
        strays = tuple(
            ELSEWHERE(rank=rank, size_bytes=_taken(recording, index), index=index)
            for index in sorted(recording.events)
            if index != local
        )
        return {local: f"gpu:{rank}"}, strays
    used = max(recording.events, key=lambda index: _taken(recording, index))
    return {used: f"gpu:{rank}"}, (NOT_CHOSEN(rank=rank, index=used, local_rank=local),)


def _taken(recording: Recording, device: int) -> int:
    """What was put on a device in all, a block that died included."""
    return sum(size for size, where in zip(recording.sizes, recording.devices, strict=True) if where == device)
