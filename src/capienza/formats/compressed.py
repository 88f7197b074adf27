"""compressed-tensors (llm-compressor): groups of modules, each with its own way of being stored.

Legend: R rows, C columns, b bits, g group size.
    int-quantized, float-quantized   one byte a weight + scales
    pack-quantized                   ceil(C b / 32) 32-bit words a row + scales + the shape (2 int64)
    mxfp8-quantized                  one byte a weight + one byte for 32 of them
    nvfp4-pack, mxfp4-pack           see fp4
Scales are one a tensor, a row (R, 1), a group (R, C / g) or a block, in the model's format unless `scale_dtype`
says otherwise. Asymmetric weights keep zero points beside the scales; activation order "group" an int32 for
each input feature. "Linear" as a target is every linear module, the head included, unless `ignore` names it.
An exact name is stronger than an expression, and that than a class. Widths that do not divide 32 (3, 5, 6, 7 bits)
were packed less densely by older releases; engines run 4 and 8.
Source: compressed-tensors quantization_config, quantization lifecycle and compressors; transformers 5.24.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

import msgspec

from capienza.formats.fp4 import MicroBlocks, Nvfp4
from capienza.formats.fp8 import Fp8
from capienza.formats.keys import Keys
from capienza.formats.layout import Layout, Matrix, Part, Rule, Scheme, ceil_div
from capienza.formats.matching import CLASSES

WORD_BITS = 32
PLAIN_FORMATS = ("int-quantized", "float-quantized", "naive-quantized", "mxfp8-quantized")
FORMATS = (*PLAIN_FORMATS, "pack-quantized", "nvfp4-pack-quantized", "mxfp4-pack-quantized")
STRATEGIES = ("tensor", "channel", "group", "block", "tensor_group")
SCALE_DTYPES = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "uint8": "uint8", "float8_e4m3fn": "fp8_e4m3"}
SCALE_WORDS = {"model": None, **SCALE_DTYPES, **{f"torch.{name}": dtype for name, dtype in SCALE_DTYPES.items()}}


class Integers(msgspec.Struct, frozen=True):
    """Integer weights, one byte each or packed into words, with scales a row or a group (`group` columns)."""

    bits: int
    group: int | None = None
    packed: bool = False
    symmetric: bool = True
    ordered: bool = False
    per_tensor: bool = False
    static: bool = False
    scale_dtype: str | None = None

    def parts(self, matrix: Matrix) -> tuple[Part, ...]:
        """Weight, scales and what asymmetry, packing and activation order add."""
        groups = 1 if self.group is None else matrix.groups(self.group, f"int{self.bits} g{self.group}")
        scale_shape = matrix.vector if self.per_tensor else (matrix.rows, groups)
        scale_dtype = self.scale_dtype or matrix.dtype
        parts: list[Part] = []
        if self.packed:
            parts.append(Part("weight_packed", (matrix.rows, ceil_div(matrix.columns * self.bits, WORD_BITS)), "int32"))
        else:
            parts.append(Part("weight", (matrix.rows, matrix.columns), "int8"))
        parts.append(Part("weight_scale", scale_shape, scale_dtype))
        if not self.symmetric and self.packed:
            parts.append(Part("weight_zero_point", (ceil_div(matrix.rows * self.bits, WORD_BITS), groups), "int32"))
        elif not self.symmetric:
            parts.append(Part("weight_zero_point", scale_shape, "int8"))
        if self.packed:
            parts.append(Part("weight_shape", (2,), "int64"))
        if self.ordered:
            parts.append(Part("weight_g_idx", (matrix.columns,), "int32"))
        if self.static:
            parts.append(Part("input_scale", matrix.vector, scale_dtype))
        return tuple(parts)


def w8a8_scheme() -> Scheme:
    """INT8 weights with a scale a row, on every linear module but the head."""
    return Scheme(method="compressed-tensors", name="w8a8", layout=Integers(8), computed=("w8a8-int8",))


def w4a16_scheme(group: int) -> Scheme:
    """Packed 4-bit weights in groups, on every linear module but the head."""
    layout = Integers(4, group, packed=True)
    return Scheme(method="compressed-tensors", name=f"w4a16-g{group}", layout=layout, computed=("wna16",))


def read_compressed(keys: Keys) -> Scheme:
    """The scheme of a `compressed-tensors` configuration. Raises `InputErrors`."""
    whole = keys.word("format", (*FORMATS, "mixed-precision"), "mixed-precision")
    groups = keys.mapping("config_groups") or {}
    ignored = keys.names("ignore") or ()
    for key in ("sparsity_config", "transform_config"):
        found = keys.mapping(key)
        if found and found.get("format") != "dense":
            keys.refuse(key, dict(found), ("null", "{}"))
    dequantize = keys.flag("dequantize") or not keys.flag("run_compressed", default=True)
    keys.ignore(
        "quant_method", "quantization_status", "kv_cache_scheme", "global_compression_ratio", "version",
        "use_optimized_inference",
    )  # fmt: skip
    rules = [keys.rule("target", "ignore", ignored)] if ignored else []
    made = [_group(keys, str(label)[:64], group, whole) for label, group in groups.items()]
    keys.done()
    groups_made = [group for group in made if group is not None]
    rules += _by_strength([group.rule for group in groups_made])
    name = f"compressed-tensors ({', '.join(dict.fromkeys(group.stored_as for group in groups_made))})"
    return Scheme(
        method="compressed-tensors",
        name=name,
        roles=(),
        rules=() if dequantize else tuple(rules),
        computed=() if dequantize else tuple(dict.fromkeys(group.computed for group in groups_made)),
    )


def _by_strength(groups: list[Rule]) -> list[Rule]:
    """The groups' targets as rules: exact names first, then expressions in their own order, then classes."""
    targets = [(target, group.layout) for group in groups for target in group.patterns]
    expressions = sorted((item for item in targets if item[0].startswith("re:")), key=lambda item: item[0])
    names = [item for item in targets if not item[0].startswith("re:") and item[0] not in CLASSES]
    classes = [item for item in targets if item[0] in CLASSES]
    return [
        Rule("target", tuple(target for target, _ in run), layout)
        for layout, run in groupby((*names, *expressions, *classes), key=lambda item: item[1])
    ]


class _Group(msgspec.Struct, frozen=True):
    """One group: its rule, how it is stored, and how it is multiplied."""

    rule: Rule
    stored_as: str
    computed: str


def _group(keys: Keys, label: str, found: Any, whole: str) -> _Group | None:
    """One group of the configuration; None when it does not touch weights."""
    if not isinstance(found, Mapping):
        keys.refuse("config_groups", found, ('{"group_0": {...}}',))
        return None
    inner = Keys(found, keys.file, keys.method, f"{keys.path}.config_groups.{label}")
    targets = inner.names("targets") or ()
    weights = inner.mapping("weights")
    activations = inner.mapping("input_activations")
    stored_as = inner.word("format", FORMATS, whole) if weights is not None else whole
    inner.ignore("output_activations", "format")
    layout = None
    if weights is not None:
        if stored_as == "mixed-precision":
            inner.refuse("format", found.get("format"), FORMATS)
        layout = _layout(Keys(weights, keys.file, keys.method, f"{inner.path}.weights"), keys, stored_as, activations)
    keys.problems += inner.leftovers()
    if layout is None or weights is None:
        return None
    rule = inner.rule("target", "targets", targets, layout)
    return _Group(rule, stored_as, _computed(stored_as, weights, activations))


def _computed(stored_as: str, weights: Mapping[str, Any], activations: Mapping[str, Any] | None) -> str:
    """How the matrices are multiplied: bits and kind of weights and of inputs, in the words of vLLM's schemes."""
    beside = activations or {}
    if stored_as == "nvfp4-pack-quantized":
        return "nvfp4" if activations else "nvfp4a16"
    if stored_as == "mxfp4-pack-quantized":
        return "mxfp4"
    if stored_as == "mxfp8-quantized":
        return "mxfp8"
    if weights.get("type") == "float":
        return "w8a8-fp8" if activations else "w8a16-fp8"
    if not activations:
        return "wna16"
    if weights.get("num_bits") == 4:
        return "w4a8-fp8" if beside.get("type") == "float" else "w4a8-int8"
    return "w8a8-int8"


def _layout(weights: Keys, outer: Keys, stored_as: str, activations: Mapping[str, Any] | None) -> Layout:
    bits = weights.integer("num_bits", range(2, 9), 8)
    kind = weights.word("type", ("int", "float"), "int")
    group = weights.group("group_size", None)
    block = weights.raw("block_structure")
    by_group = "channel" if weights.config.get("group_size") == -1 else "tensor" if group is None else "group"
    strategy = weights.word("strategy", STRATEGIES, by_group)
    symmetric = weights.flag("symmetric", default=True)
    ordered = weights.word("actorder", ("group", "weight", "static", "dynamic", "none"), "none") == "group"
    scale_dtype = SCALE_WORDS[weights.word("scale_dtype", SCALE_WORDS, "model")]
    weights.ignore("zp_dtype", "dynamic", "observer", "observer_kwargs", "is_mse")
    static = activations is not None and activations.get("dynamic") is False
    if stored_as in {"nvfp4-pack-quantized", "mxfp4-pack-quantized"} and (bits, kind) != (4, "float"):
        weights.refuse("num_bits", bits, (4,))
    elif stored_as == "pack-quantized" and kind != "int":
        weights.refuse("type", kind, ("int",))
    elif stored_as in PLAIN_FORMATS and kind == "float" and bits != 8:
        weights.refuse("num_bits", bits, (8,))
    if strategy in {"group", "tensor_group"} and group is None:
        weights.refuse("group_size", None, (">= 1",))
    sides = _sides(weights, block, strategy)
    outer.problems += weights.leftovers()
    if stored_as == "nvfp4-pack-quantized":
        activation = None if activations is None else "input_global_scale"
        return Nvfp4("weight_packed", "weight_global_scale", activation, vector=True)
    if stored_as == "mxfp4-pack-quantized":
        return MicroBlocks()
    if kind == "float":
        scale_dtype = "uint8" if stored_as == "mxfp8-quantized" else scale_dtype
        sides = sides if group is None else (1, group)
        return Fp8(sides, "weight_scale", scale_dtype, static, "input_scale", vector=True)
    packed = stored_as == "pack-quantized"
    return Integers(bits, group, packed, symmetric, ordered, strategy == "tensor", static, scale_dtype)


def _sides(weights: Keys, block: Any, strategy: str) -> tuple[int | None, int | None]:
    """Rows and columns that one scale covers; None spans all of them."""
    if strategy == "channel":
        return (1, None)
    if strategy != "block":
        return (None, None)
    if isinstance(block, str) and block.count("x") == 1 and all(side.isdecimal() for side in block.split("x")):
        block = [int(side) for side in block.split("x")]
    if isinstance(block, list) and len(block) == 2 and all(type(side) is int and 0 < side < 2**31 for side in block):
        return (block[0], block[1])
    weights.refuse("block_structure", block, ("[128, 128]",))
    return (None, None)
