"""What a library shards of a model on several GPUs, unit by unit, and what stays whole on every rank.

Legend: `beside` is what no library shards: constants of quantised weights and other tables (no parameters), and
adapters that stay out.

* FSDP1's flat parameters are of one format, so norms of a quantised base are not widened (measured: the same peak to
  the byte with and without PEFT's k-bit preparation).
* fms-acceleration's fused adapters of quantised models stay out of FSDP: 8 bytes an element on every rank, whatever n
  (measured on two and four A100; framework_plugin_fast_quantized_peft.py).
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from capienza.architecture.model import Architecture
from capienza.formats.scheme import Scheme, stored
from capienza.predict.training.base import buffers_bytes, resident_dtype, scheme_of
from capienza.predict.training.modules import pieces
from capienza.predict.training.parallel.units import Model, Unit, Weight, block_bytes
from capienza.predict.training.trained import BYTES, num_trained, trained_tensors
from capienza.recipe.recipe import Recipe

CODES_BYTES = 2
"""Packed codes are gathered as numbers of 16 bits (bitsandbytes' quant_storage, fms-acceleration's views)."""
PACKED = ("", "qweight", "qzeros")
"""Of the tensors of a quantised matrix, those that are parameters: bitsandbytes' codes, GPTQ's words."""
FUSED_ADAPTERS_BYTES = 8


class Shared(msgspec.Struct, frozen=True):
    """What a library shards, and what stays whole on every rank."""

    model: Model
    beside_bytes: int


def shared_of(architecture: Architecture, recipe: Recipe, scheme: Scheme | None = None) -> Shared:
    """The units of a model: a layer's frozen weights together and each adapter by itself; or all that is trained."""
    scheme, dtype = scheme_of(recipe, scheme), resident_dtype(recipe)
    is_full = recipe.adapters is None
    found: dict[int | None, list[Weight]] = {}
    beside = buffers_bytes(architecture, recipe)
    for piece in pieces(architecture, recipe):
        for part in stored(piece.name, piece.shape, piece.role, scheme, dtype, transposed=piece.transposed):
            if part.dtype == dtype and part.name == piece.name:
                weight = Weight(piece.shape, BYTES[dtype], is_trained=is_full)
            elif part.name == piece.name or part.name.rpartition(".")[2] in PACKED:
                weight = Weight((part.bytes // CODES_BYTES,), CODES_BYTES, is_trained=False)
            else:
                beside += piece.count * block_bytes(part.bytes)
                continue
            found.setdefault(piece.layer, []).extend([weight] * piece.count)
    adapters: dict[int | None, list[Unit]] = {}
    if not is_full and _is_mixed(recipe):
        _mix(architecture, recipe, found)
    elif not is_full:
        beside += _adapters(architecture, recipe, adapters)
    layers = tuple(
        (Unit("layer", tuple(found[layer.index])), *adapters.get(layer.index, ())) for layer in architecture.layers
    )
    root = (Unit("root", tuple(found.get(None, ()))), *adapters.get(None, ()))
    return Shared(Model(layers=layers, root=root), beside)


def _is_mixed(recipe: Recipe) -> bool:
    """LitGPT wraps blocks with their adapters: a flat parameter of which all gets a gradient (litgpt#1538)."""
    return recipe.framework == "litgpt" and recipe.parallel.sharding == "fsdp1"


def _mix(architecture: Architecture, recipe: Recipe, found: dict[int | None, list[Weight]]) -> None:
    for layer, weights in found.items():
        if layer is not None:
            found[layer] = [replace(weight, is_trained=True, has_states=False) for weight in weights]
    for one in trained_tensors(architecture, recipe):
        found[one.layer] += [Weight(one.shape, one.bytes_per_element)] * one.count


def _adapters(architecture: Architecture, recipe: Recipe, by_layer: dict[int | None, list[Unit]]) -> int:
    """Units of the adapters, by layer; or what they hold where they stay out of the library."""
    trained = trained_tensors(architecture, recipe)
    base = recipe.precision.quantised or ""
    # A GPTQ base under FSDP is fms-acceleration's; with plain kernels its adapters are sharded as others are.
    is_fused = recipe.kernels == "foak" or (base.startswith("gptq") and recipe.kernels != "transformers")
    is_out = bool(base) and is_fused
    if is_out and recipe.parallel.sharding == "fsdp1":
        return FUSED_ADAPTERS_BYTES * num_trained(trained)
    for one in trained:
        units = by_layer.setdefault(one.layer, [])
        # Named by their place, so that layers that are alike are equal.
        weight = Weight(one.shape, one.bytes_per_element)
        units += [Unit(f"adapter {len(units) + place}", (weight,)) for place in range(one.count)]
    return 0
