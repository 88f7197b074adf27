"""A file's own tensor table against the architecture: what the files hold more, less, or in another size.

Headers win: the messages say where the config does not explain them. Checkpoints may keep experts one by one,
add a vision side, prediction layers or a copy of a tied head, and name the text side otherwise; so the elements
are compared layer by layer. Tensors of a like name must have a like shape as well: a config that only comes to the
same sum describes other heads. Packed formats hide the number of elements: a layer that has
one is left out, and counted in a message.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from capienza.architecture.model import Architecture, Parameter
from capienza.errors import Message, phrase, template
from capienza.formats.tensor import Tensor

DIFFERENT = template(
    "architecture.elements-differ",
    "{part}: the files hold {found} elements where the config gives {expected}. Largest tensors not in the config:"
    " {unexplained}; largest missing: {missing}",
    "The headers of the files are taken for the weights; check that the config belongs to them.",
)
EXTRA = template(
    "architecture.extra-tensors",
    "the files also hold {found} elements of {what}: {largest}",
    "They are counted in the weights if the engine loads them.",
)
MORE_LAYERS = template(
    "architecture.more-layers",
    "the files also hold {found} elements of layers after the last that the config gives: {largest}",
    "More layers keep more cache; check that the config belongs to the files.",
)
OTHER_SHAPES = template(
    "architecture.shapes-differ",
    "{part}: tensors have another shape in the files than the config gives: {shapes} (files / config)",
    "Heads and cache follow the config; check that it belongs to the files.",
)
NOT_COMPARED = template(
    "architecture.packed-not-compared",
    "{count} part(s) hold packed tensors, whose elements cannot be compared with the config",
    "Their bytes are taken from the headers.",
)

# One element a number; fp8 and int8 weights keep their shape. Anything else may be packed words.
COUNTABLE = frozenset({"fp64", "fp32", "fp16", "bf16", "fp8_e4m3", "fp8_e5m2", "fp8_e4m3fnuz", "fp8_e5m2fnuz", "int8"})

EXPERTS = ".experts."
SHOWN_SHAPES = 6
OUTSIDE = phrase("outside the layers")

_LAYER = re.compile(r"\.(?:layers|h|blocks)\.([0-9]{1,6})\.")
_SIDES = re.compile(
    r"\.(?:vision|visual|audio|multi_modal|mm_|image_|video_|connector|projector|embed_vision)[^.]*(?:\.|$)"
)
_PREDICTION = re.compile(r"\.mtp[^.]*\.")
_WRAPPERS = re.compile(r"\.(?:model|language_model|text_model|transformer|decoder|backbone)(?=\.)")
# Constants that old checkpoints keep and no model trains: rotary frequencies, causal masks.
_CONSTANT = re.compile(r"\.(?:rotary_emb\.\w+|inv_freq|masked_bias|attn\.bias|attention\.bias|ropes?\.freqs)$")
# Scales and zero points beside quantised weights.
_SCALE = re.compile(
    r"(?:[._]scales?|_scale_(?:inv|2)|[._]scale_shift|qzeros|g_idx|zero_point|weight_shape|absmax\w*|quant_map|SCB|_amax)$"
)


def compare_with_tensors(architecture: Architecture, tensors: Iterable[Tensor]) -> tuple[Message, ...]:
    """Where a safetensors checkpoint does not hold what the config says; empty when all is explained."""
    layers = len(architecture.layers)
    named = layers + architecture.prediction_layers
    found: defaultdict[int | None, list[Tensor]] = defaultdict(list)
    extra: defaultdict[str, list[Tensor]] = defaultdict(list)
    beyond: list[Tensor] = []
    for tensor in tensors:
        name = f".{tensor.name}"
        if _CONSTANT.search(name) or _SCALE.search(name):
            continue
        match = _LAYER.search(name)
        layer = int(match[1]) if match else None
        if _SIDES.search(name):
            extra[phrase("a vision or audio side")].append(tensor)
        elif _PREDICTION.search(name) or (layer is not None and layers <= layer < named):
            extra[phrase("prediction layers")].append(tensor)
        elif layer is not None and layer >= named:
            beyond.append(tensor)
        elif architecture.tied_head and name.endswith(".lm_head.weight"):
            extra[phrase("a copy of the tied head")].append(tensor)
        else:
            found[layer].append(tensor)
    expected: defaultdict[int | None, list[Parameter]] = defaultdict(list)
    for parameter in (*architecture.parameters, *architecture.buffers):
        expected[parameter.layer].append(parameter)
    return (*_differences(found, expected), *_more_layers(beyond), *_extras(extra))


def _differences(found: dict[int | None, list[Tensor]], expected: dict[int | None, list[Parameter]]) -> list[Message]:
    """One message for each group of layers that differ in the same way."""
    groups: defaultdict[tuple[int, int, str, str], list[str]] = defaultdict(list)
    shapes: defaultdict[str, list[str]] = defaultdict(list)
    packed = 0
    for layer in sorted(found.keys() | expected.keys(), key=lambda key: -1 if key is None else key):
        here, there = found.get(layer, []), expected.get(layer, [])
        part = OUTSIDE if layer is None else str(layer)
        is_packed = any(tensor.dtype not in COUNTABLE for tensor in here)
        packed += is_packed
        held, wanted = sum(tensor.elements for tensor in here), sum(parameter.elements for parameter in there)
        if held != wanted and not is_packed:
            groups[held, wanted, _names(here, there), _names(there, here)].append(part)
        elif others := _other_shapes(here, there):
            shapes[others].append(part)
    messages = [
        DIFFERENT(part=_part(parts), found=held, expected=wanted, unexplained=unexplained, missing=missing)
        for (held, wanted, unexplained, missing), parts in groups.items()
    ]
    messages += [OTHER_SHAPES(part=_part(parts), shapes=others) for others, parts in shapes.items()]
    return [*messages, NOT_COMPARED(count=packed)] if packed else messages


def _other_shapes(here: Sequence[Tensor], there: Sequence[Parameter]) -> str:
    """The tensors that both sides name alike and shape otherwise; empty when there is none.

    A matrix may be kept the other way round, and a convolution with a dimension of 1.
    """
    stated = {_plain_name(parameter.name): parameter.shape for parameter in there}
    found = []
    for tensor in here:
        name = _plain_name(tensor.name)
        wanted = stated.get(name, tensor.shape)
        if tensor.dtype in COUNTABLE and _dimensions(tensor.shape) != _dimensions(wanted):
            found.append(f"{name[1:120]} {list(tensor.shape)} / {list(wanted)}")
    return ", ".join(sorted(found)[:SHOWN_SHAPES])


def _dimensions(shape: tuple[int, ...]) -> list[int]:
    return sorted(size for size in shape if size != 1)


def _more_layers(beyond: list[Tensor]) -> list[Message]:
    return [MORE_LAYERS(found=sum(tensor.elements for tensor in beyond), largest=_largest(beyond))] if beyond else []


def _extras(extra: dict[str, list[Tensor]]) -> list[Message]:
    return [
        EXTRA(found=sum(tensor.elements for tensor in tensors), what=what, largest=_largest(tensors))
        for what, tensors in extra.items()
    ]


def _names(these: Sequence[Tensor | Parameter], others: Sequence[Tensor | Parameter]) -> str:
    """The largest tensors of one side that the other does not have under a like name and size.

    Experts kept one by one on one side and fused on the other are alike when they are as large together.
    """
    known = {(_plain_name(other.name), other.elements) for other in others}
    same_experts = _experts(these) == _experts(others)
    return _largest(
        [
            this
            for this in these
            if (_plain_name(this.name), this.elements) not in known and not (same_experts and EXPERTS in this.name)
        ]
    )


def _experts(tensors: Iterable[Tensor | Parameter]) -> int:
    return sum(tensor.elements for tensor in tensors if EXPERTS in tensor.name)


def _plain_name(name: str) -> str:
    """A name without the wrappers that a whole model puts around its text side, and without its layer."""
    return _LAYER.sub(".", _WRAPPERS.sub("", f".{name}"))


def _largest(tensors: Iterable[Tensor | Parameter]) -> str:
    """The three largest, without their layer: layers that differ alike then give one message."""
    ordered = sorted(tensors, key=lambda tensor: (-tensor.elements, tensor.name))
    return ", ".join(f"{_plain_name(one.name)[1:120]} ({one.elements})" for one in ordered[:3]) or "none"


def _part(parts: list[str]) -> str:
    if parts[0] == OUTSIDE:
        return parts[0]
    return f"layer {parts[0]}" if len(parts) == 1 else f"{len(parts)} layers from {parts[0]} to {parts[-1]}"
