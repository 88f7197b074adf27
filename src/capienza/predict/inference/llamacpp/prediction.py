"""The one question of this room: what does llama.cpp allocate for this model, started like this."""

from __future__ import annotations

from capienza.predict.inference.llamacpp.buffers import LlamaBuffers
from capienza.predict.inference.llamacpp.cache import cache_buffers
from capienza.predict.inference.llamacpp.model import LlamaModel
from capienza.predict.inference.llamacpp.output import output_buffer
from capienza.predict.inference.llamacpp.placement import place
from capienza.predict.inference.llamacpp.runtime import LlamaRuntime, sizes_of
from capienza.predict.inference.llamacpp.weights import model_buffers, placed_weights


def predict_llamacpp(model: LlamaModel, runtime: LlamaRuntime) -> LlamaBuffers:
    """Bytes of every buffer on every device. Raises `ExpressionError` for an override that is not understood."""
    placement = place(model.blocks, runtime)
    sizes = sizes_of(runtime, model.number("context_length"))
    placed = placed_weights(model, runtime, placement)
    buffers = [
        *model_buffers(model, placed),
        *cache_buffers(model, runtime, placement, sizes),
        output_buffer(model, runtime, placement),
    ]
    return LlamaBuffers(tuple(buffers))
