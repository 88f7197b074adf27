"""The one question of this room: what does llama.cpp allocate for this model, started like this."""

from __future__ import annotations

import msgspec

from capienza.predict.inference.llamacpp.buffers import UNKNOWN_GRAPH, LlamaBuffer, LlamaBuffers, UnknownBuffer
from capienza.predict.inference.llamacpp.cache import cache_buffers
from capienza.predict.inference.llamacpp.compute import compute_buffers
from capienza.predict.inference.llamacpp.graph.build import UnknownGraphError
from capienza.predict.inference.llamacpp.model import LlamaModel
from capienza.predict.inference.llamacpp.output import output_buffer
from capienza.predict.inference.llamacpp.placement import place
from capienza.predict.inference.llamacpp.rules import ROLLS_BACK
from capienza.predict.inference.llamacpp.runtime import LlamaRuntime, sizes_of
from capienza.predict.inference.llamacpp.weights import model_buffers, placed_weights


def predict_llamacpp(model: LlamaModel, runtime: LlamaRuntime) -> LlamaBuffers:
    """Bytes of every buffer on every device. Raises `ExpressionError` for an override that is not understood."""
    if model.architecture not in ROLLS_BACK and runtime.snapshots:
        runtime = msgspec.structs.replace(runtime, snapshots=0)
    placement = place(model.blocks, runtime)
    sizes = sizes_of(runtime, model.number("context_length"))
    placed = placed_weights(model, runtime, placement)
    compute: list[LlamaBuffer] = []
    unknown: tuple[UnknownBuffer, ...] = ()
    try:
        compute = compute_buffers(model, runtime, placement, sizes, placed)
    except UnknownGraphError as error:
        reason = UNKNOWN_GRAPH(architecture=model.architecture, missing=error.missing)
        unknown = (UnknownBuffer("compute_buffer", reason),)
    buffers = [
        *model_buffers(model, placed),
        *cache_buffers(model, runtime, placement, sizes),
        *compute,
        output_buffer(model, runtime, placement),
    ]
    return LlamaBuffers(tuple(buffers), unknown)
