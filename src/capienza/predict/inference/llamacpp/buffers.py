"""The answer: bytes of each kind of buffer on each device, with the formula that gave them."""

from __future__ import annotations

from typing import Literal

import msgspec

from capienza.errors import Message, template
from capienza.units import Range

BufferKind = Literal["model_buffer", "kv_buffer", "rs_buffer", "compute_buffer", "output_buffer"]
BufferStatus = Literal["exact", "estimated"]

SUM = template("predict.llamacpp-sum", "{sum} = {total} B")
TENSORS = template("predict.llamacpp-tensors", "{count} tensors, padded: {total} B")
GRAPHS = template(
    "predict.llamacpp-graphs", "graphs of {tokens} tokens need {needs} B: the buffer holds the largest, {total} B"
)
UNKNOWN_GRAPH = template(
    "predict.llamacpp-unknown-graph",
    "how llama.cpp computes the architecture {architecture} is not described ({missing})",
    "start the engine once with `--fit` or read the compute buffers that it prints when it starts",
)


class LlamaBuffer(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of buffer on one device, by ggml's names ("CUDA0", "CUDA_Host", "CPU", "CPU_Mapped")."""

    kind: BufferKind
    device: str
    amount: Range
    status: BufferStatus
    formula: Message


class UnknownBuffer(msgspec.Struct, frozen=True):
    """A kind of buffer that the run has, of a size that is not known."""

    kind: BufferKind
    reason: Message


class LlamaBuffers(msgspec.Struct, frozen=True):
    """All the buffers of a run; a device that holds nothing of a kind has none."""

    buffers: tuple[LlamaBuffer, ...]
    unknown: tuple[UnknownBuffer, ...] = ()

    def of(self, kind: BufferKind) -> dict[str, LlamaBuffer]:
        """The buffers of one kind by device."""
        return {buffer.device: buffer for buffer in self.buffers if buffer.kind == kind}

    def on(self, device: str) -> Range:
        """What all the buffers of one device take together."""
        return sum((buffer.amount for buffer in self.buffers if buffer.device == device), Range(0, 0, 0))
