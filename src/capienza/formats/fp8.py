"""One byte a weight in floating point: per tensor, per row, or in blocks, with their scales.

Legend: R rows, C columns. Weight R C bytes. Scales: one a tensor; R of them; or ceil(R / r) ceil(C / c) for blocks
of r x c (DeepSeek: 128 x 128, fp32: 4 / 16384 bytes a weight). MXFP8 blocks are 1 x 32 with one byte each.
Gate and up projections fused into one tensor keep at least one row of scales each.
The head stays unquantised: no FP8 checkpoint stores it otherwise, and engines have no FP8 head.
Source: transformers 5.24 integrations/finegrained_fp8.py and fbgemm_fp8.py; DeepSeek-V3's weight notes.
"""

from __future__ import annotations

from typing import Any

import msgspec

from capienza.formats.fp4 import MicroBlocks
from capienza.formats.keys import Keys
from capienza.formats.layout import Layout, Matrix, Part, Rule, Scheme, ceil_div

MX_BLOCK = (1, 32)


class Fp8(msgspec.Struct, frozen=True):
    """FP8 weights with scales over `block` (rows, columns); a side of None spans the whole matrix.

    `scale` names the scale tensor and `scale_dtype` its format; None takes the model's own. `static` adds one
    fixed activation scale, named `activation`. `vector` says that single numbers are stored with one dimension.
    """

    block: tuple[int | None, int | None] = (None, None)
    scale: str = "weight_scale_inv"
    scale_dtype: str | None = "fp32"
    static: bool = False
    activation: str = "activation_scale"
    vector: bool = False

    def parts(self, matrix: Matrix) -> tuple[Part, ...]:
        """Weight, scales and, for static activations, their scale."""
        high, wide = self.block
        single = matrix.vector if self.vector else matrix.scalar
        scale_dtype = self.scale_dtype or matrix.dtype
        if high is None and wide is None:
            scales = single
        else:
            down = 1 if high is None else ceil_div(matrix.rows, high)
            scales = (max(down, matrix.halves), 1 if wide is None else ceil_div(matrix.columns, wide))
        parts = (Part("weight", (matrix.rows, matrix.columns), "fp8_e4m3"), Part(self.scale, scales, scale_dtype))
        if not self.static:
            return parts
        return (*parts, Part(self.activation, single, matrix.dtype if self.scale_dtype is None else "fp32"))


class RowsFbgemm(msgspec.Struct, frozen=True):
    """FBGEMM: one fp32 scale a row, and the upper bound of the activations."""

    def parts(self, matrix: Matrix) -> tuple[Part, ...]:
        """Weight, row scales and bound."""
        return (
            Part("weight", (matrix.rows, matrix.columns), "fp8_e4m3"),
            Part("weight_scale", (matrix.rows, 1), "fp32"),
            Part("input_scale_ub", (1,), "fp32"),
        )


def fp8_scheme(name: str = "fp8", block: tuple[int, int] | None = None) -> Scheme:
    """FP8 made while loading, every linear module but the head: per tensor, or in blocks."""
    return Scheme(method="fp8", name=name, layout=Fp8(block or (None, None)))


def read_fp8(keys: Keys) -> Scheme:
    """The scheme of an `fp8` or `mxfp8` configuration. Raises `InputErrors`.

    Without `weight_block_size` the scales are per tensor: the key is younger than the per-tensor checkpoints.
    """
    mx = keys.method == "mxfp8"
    keys.word("fmt", ("e4m3", "float8_e4m3fn"), "e4m3")
    static = keys.word("activation_scheme", ("dynamic", "static"), "dynamic") == "static"
    block = _block(keys, keys.raw("weight_block_size")) or (MX_BLOCK if mx else None)
    scale_format = keys.word("scale_fmt", ("float", "fp32", "ue8m0"), "ue8m0" if mx else "float")
    scale_dtype = "e8m0" if scale_format == "ue8m0" and block else "fp32"
    expert_dtype = keys.word("expert_dtype", ("fp8", "fp4"), "fp8")
    dequantize = keys.flag("dequantize")
    skipped = keys.names("modules_to_not_convert", "ignored_layers")
    converted = keys.names("modules_to_convert")
    keys.ignore("quant_method", "kv_cache_scheme")
    keys.done()
    layout: Layout | None = None if dequantize else Fp8(block or (None, None), scale_dtype=scale_dtype, static=static)
    rules = []
    if skipped:
        rules.append(keys.rule("module", "modules_to_not_convert", skipped))
    if converted:
        rules.append(keys.rule("suffix", "modules_to_convert", converted, Fp8(scale="weight_scale")))
    if expert_dtype == "fp4" and not dequantize:
        packed = MicroBlocks(scale="weight_scale_inv", packed="weight", packed_dtype="int8", scale_dtype=scale_dtype)
        rules.append(Rule("regex", (r"(.*\.)?experts(\.|$)",), packed))
    return Scheme(method=keys.method, name=_name(keys.method, block), layout=layout, rules=tuple(rules))


def read_fbgemm(keys: Keys) -> Scheme:
    """The scheme of an `fbgemm_fp8` configuration. Raises `InputErrors`."""
    skipped = keys.names("modules_to_not_convert")
    keys.ignore("quant_method", "activation_scale_ub")
    keys.done()
    rules = (keys.rule("module", "modules_to_not_convert", skipped),) if skipped else ()
    return Scheme(method="fbgemm_fp8", name="fp8 per row", layout=RowsFbgemm(), rules=rules)


def _block(keys: Keys, found: Any) -> tuple[int, int] | None:
    if found is None:
        return None
    if (
        isinstance(found, list | tuple)
        and len(found) == 2
        and all(isinstance(side, int) and not isinstance(side, bool) and 0 < side < 2**31 for side in found)
    ):
        return found[0], found[1]
    keys.refuse("weight_block_size", found, ("null", "[128, 128]"))
    return None


def _name(method: str, block: tuple[int, int] | None) -> str:
    return method if block is None or method == "mxfp8" else f"{method} in blocks of {block[0]}x{block[1]}"
