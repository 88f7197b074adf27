"""The output buffer: one row of logits, and with embeddings one of those, for each sequence.

Legend: S sequences, V vocabulary, E embedding. bytes = 4 x S x (V + E if embeddings). It lies in pinned host memory
when the output layer is on a device, and grows when one batch asks for more rows.
Source: `llama_context::output_reserve` (llama-context.cpp at 0c1e57098).
"""

from __future__ import annotations

from capienza.predict.inference.llamacpp.backend import CPU, host_buffer_name
from capienza.predict.inference.llamacpp.buffers import SUM, LlamaBuffer
from capienza.predict.inference.llamacpp.model import LlamaModel
from capienza.predict.inference.llamacpp.placement import Placement
from capienza.predict.inference.llamacpp.runtime import LlamaRuntime
from capienza.units import Range


def output_buffer(model: LlamaModel, runtime: LlamaRuntime, placement: Placement) -> LlamaBuffer:
    """The buffer as it is when the context has been made."""
    width = model.vocabulary + (model.hidden if runtime.embeddings else 0)
    total = 4 * runtime.n_seq_max * width
    return LlamaBuffer(
        kind="output_buffer",
        device=CPU if placement.output == CPU else host_buffer_name(runtime.devices),
        amount=Range.exact(total),
        status="exact",
        formula=SUM(sum=f"4 x {runtime.n_seq_max} x {width}", total=total),
    )
