"""From a name or a `quantization_config` to the exact tensors that hold each parameter.

A parameter is quantised when it is the weight of a linear module (two dimensions, name ending in ".weight") or a
fused expert tensor (three dimensions), and the scheme's rules or its roles say so. Everything else (embeddings,
norms, biases, convolutions, routers, states) keeps the model's own format.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from capienza.errors import NOWHERE, InputError, Place, Template, template
from capienza.formats.bitsandbytes import bitsandbytes_4bit, bitsandbytes_8bit, read_bitsandbytes
from capienza.formats.blocks import tensor_bytes, unknown
from capienza.formats.compressed import read_compressed, w4a16_scheme, w8a8_scheme
from capienza.formats.fp4 import mxfp4_scheme, nvfp4_scheme, read_mxfp4
from capienza.formats.fp8 import fp8_scheme, read_fbgemm, read_fp8
from capienza.formats.gptq import GPTQ_BITS, awq_scheme, gptq_scheme, read_awq, read_gptq
from capienza.formats.keys import ROOT, Keys
from capienza.formats.layout import Layout, Matrix, Scheme
from capienza.formats.matching import Module, matches, module_names
from capienza.formats.modelopt import read_modelopt
from capienza.formats.tensor import Tensor

__all__ = ["WEIGHT_FORMATS", "Scheme", "bits_per_weight", "quantised", "scheme_from_config", "scheme_named", "stored"]

_OWN_TENSORS = "size the weights from the checkpoint's own tensors, whose bytes need no method"
UNKNOWN_METHOD = template("formats.quantization-method", "found {found}; accepted: {accepted}", _OWN_TENSORS)
MISSPELT_METHOD = template(
    "formats.quantization-method-misspelt",
    "found {found}; did you mean {suggestion}?",
    "accepted: {accepted}; or size the weights from the checkpoint's own tensors",
)
NO_METHOD = template(
    "formats.quantization-method-missing",
    "no quantization method is stated; accepted: a mapping with quant_method, one of {accepted}",
    "state quant_method, or remove the key when the weights are not quantised",
)
UNKNOWN_WEIGHT_FORMAT = template(
    "formats.weight-format",
    "the weight format {found} is not known",
    "use one of: {accepted}",
)
MISSPELT_WEIGHT_FORMAT = template(
    "formats.weight-format-misspelt",
    "the weight format {found} is not known; did you mean {suggestion}?",
    "use one of: {accepted}",
)
GGUF_WEIGHT_FORMAT = template(
    "formats.weight-format-gguf",
    "{found} is a name for GGUF files, which mix types differently from file to file: bytes cannot be derived from it",
    "name the file itself (model: {{path: ./model.gguf}}), whose tensor table is exact, and leave this out",
)

READERS: dict[str, Callable[[Keys], Scheme]] = {
    "awq": read_awq,
    "bitsandbytes": read_bitsandbytes,
    "compressed-tensors": read_compressed,
    "fbgemm_fp8": read_fbgemm,
    "fp8": read_fp8,
    "gptq": read_gptq,
    "modelopt": read_modelopt,
    "modelopt_fp4": read_modelopt,
    "mxfp4": read_mxfp4,
    "mxfp8": read_fp8,
}

_TOO_MUCH = "Counting the weights unquantised would be too much"
_EITHER_WAY = "Counting the weights unquantised could be too much or too little"
_REASONS = {
    "aqlm": "its codebooks are shaped by settings that differ for each layer",
    "auto-round": "it packs in several layouts chosen for each layer",
    "bitnet": "it packs ternary weights in a layout of its own",
    "eetq": "its weights are rearranged for each kernel while loading",
    "fouroversix": "it may keep the full weights beside the packed ones",
    "fp_quant": "it may keep the full weights beside the packed ones",
    "gemma": "its bits are chosen for each module by patterns",
    "gguf": "its bytes are in the tensor table of the .gguf file",
    "higgs": "it pads weights to the size of its transform",
    "hqq": "its groups and their zero points are chosen for each layer",
    "metal": "it exists for Apple GPUs only",
    "nvfp4": "it is made while loading and holds its scales twice",
    "quanto": "it is made while loading, in layouts that depend on the card",
    "quark": "its layouts are described for each layer in an export of its own",
    "sinq": "its scales along both axes are in a layout of its own",
    "spqr": "its sparse part depends on the weights themselves",
    "torchao": "its layouts depend on settings that the key does not state",
    "vptq": "its codebooks are shaped by settings that differ for each layer",
}
REFUSED: dict[str, Template] = {
    method: template(
        f"formats.refused-{method}",
        f"{method} is not computed: {reason}. {_EITHER_WAY if 'beside' in reason else _TOO_MUCH}",
        _OWN_TENSORS,
    )
    for method, reason in _REASONS.items()
}
"""Methods that transformers 5.24 knows and this room does not compute, with what is said about each."""

_GROUPS = (32, 64, 128)
WEIGHT_FORMATS: dict[str, Scheme] = {
    scheme.name: scheme
    for scheme in (
        *(Scheme(method="plain", name=name, dtype=name) for name in ("fp32", "bf16", "fp16")),
        fp8_scheme(),
        fp8_scheme("fp8_block", (128, 128)),
        bitsandbytes_8bit(),
        w8a8_scheme(),
        *(bitsandbytes_4bit(kind, double) for kind in ("nf4", "fp4") for double in (False, True)),
        *(gptq_scheme(bits, group) for bits in GPTQ_BITS for group in (None, *_GROUPS)),
        *(awq_scheme(group) for group in _GROUPS),
        *(w4a16_scheme(group) for group in _GROUPS),
        mxfp4_scheme(),
        nvfp4_scheme(),
    )
}
"""Resident formats a card may name in `weights.format`, and the scheme each one is.

    fp32 bf16 fp16            everything in that format
    fp8, fp8_block            FP8 linear modules: one scale a tensor, or fp32 scales for blocks of 128 x 128
    int8                      bitsandbytes LLM.int8()
    w8a8                      INT8 with a scale a row (compressed-tensors)
    nf4 fp4, with _double     bitsandbytes 4 bit, plain or double quantisation
    gptq-int4-g128            GPTQ: bits 2, 3, 4, 8; groups of 32, 64, 128, or none ("gptq-int4": one scale a row)
    awq-int4-g128             AWQ: 4 bits, groups of 32, 64, 128
    w4a16-g128                packed 4-bit groups (compressed-tensors)
    mxfp4                     fused experts only, as gpt-oss; a model without experts keeps its own format
    nvfp4                     NVFP4 linear modules
"""

_MEANT = {
    "f32": "fp32", "float32": "fp32", "f16": "fp16", "float16": "fp16", "bfloat16": "bf16", "int4": "gptq-int4-g128",
    "4bit": "nf4_double", "8bit": "int8",
}  # fmt: skip
"""What people mean by names that look like the wrong one."""

_GGUF_NAME = re.compile(r"(ud[-_])?(i?q\d|tq\d|mxfp4_moe$)", re.ASCII)


def scheme_from_config(quantization_config: object, file: str | None = None, key: str = ROOT) -> Scheme:
    """The scheme that a `quantization_config` of transformers describes; `key` is where the file states it.

    Raises `InputError`, or `InputErrors` with every problem, placed at the key: an unknown or refused method, a
    key or value that is not understood, a pattern that is not safe to match.
    """
    place = Place(file, key=key)
    if not isinstance(quantization_config, Mapping):
        raise InputError(NO_METHOD(accepted=tuple(READERS)), place)
    method = _method(quantization_config)
    if method is None:
        raise InputError(NO_METHOD(accepted=tuple(READERS)), place)
    place = Place(file, key=f"{key}.quant_method")
    if method in REFUSED:
        raise InputError(REFUSED[method](), place)
    if method not in READERS:
        raise InputError(unknown(UNKNOWN_METHOD, MISSPELT_METHOD, method, READERS), place)
    return READERS[method](Keys(quantization_config, file, method, key))


def scheme_named(name: str, place: Place = NOWHERE) -> Scheme:
    """The scheme of a name in `WEIGHT_FORMATS`. Raises `InputError` for any other, with the nearest one."""
    scheme = WEIGHT_FORMATS.get(name)
    if scheme is not None:
        return scheme
    if _GGUF_NAME.match(name.lower()):
        raise InputError(GGUF_WEIGHT_FORMAT(found=name[:64]), place)
    meant = _MEANT.get(name.lower(), "")
    raise InputError(unknown(UNKNOWN_WEIGHT_FORMAT, MISSPELT_WEIGHT_FORMAT, name, WEIGHT_FORMATS, meant), place)


def stored(
    name: str,
    shape: tuple[int, ...],
    role: str,
    scheme: Scheme | None,
    dtype: str,
    *,
    transposed: bool = False,
) -> tuple[Tensor, ...]:
    """The tensors that hold one parameter; `dtype` is the format of the model's unquantised weights.

    `shape` is (out, in), or (experts, out, in) for fused experts; `transposed` says that the last two are the
    other way round (experts of gpt-oss and Llama 4, the Conv1D modules of GPT-2). Without a scheme the parameter
    is stored as it is.

    Raises `InputError` naming the parameter when its shape cannot be packed by the method.
    """
    layout = _layout_of(name, shape, role, scheme, transposed)
    if scheme is None or layout is None:
        kept = dtype if scheme is None or scheme.dtype is None else scheme.dtype
        return (_tensor(name, shape, kept),)
    rows, columns = shape[-1:-3:-1] if transposed else shape[-2:]
    halves = 2 if len(shape) == 3 and "gate_up" in name else 1
    matrix = Matrix(name, rows, columns, dtype, halves)
    return tuple(
        _tensor(_part_name(name, part.suffix), (*shape[:-2], *part.shape), part.dtype) for part in layout.parts(matrix)
    )


def quantised(name: str, shape: tuple[int, ...], role: str, scheme: Scheme | None, *, transposed: bool = False) -> bool:
    """Whether the scheme quantises this parameter; the arguments are those of `stored`."""
    return _layout_of(name, shape, role, scheme, transposed) is not None


def bits_per_weight(scheme: Scheme, shape: tuple[int, ...], dtype: str = "bf16") -> float:
    """Bits that a linear weight (two dimensions) or fused experts (three) take, scales and tables included."""
    name, role = ("experts.down_proj", "expert") if len(shape) == 3 or scheme.method == "mxfp4" else ("w.weight", "mlp")
    if len(shape) == 2 and scheme.method == "mxfp4":
        shape = (1, *shape)
    return 8 * sum(tensor.bytes for tensor in stored(name, shape, role, scheme, dtype)) / math.prod(shape)


def _method(config: Mapping[Any, Any]) -> str | None:
    """The quantisation method; old bitsandbytes configurations state none."""
    stated = config.get("quant_method")
    if not stated and (config.get("load_in_8bit") is True or config.get("load_in_4bit") is True):
        return "bitsandbytes"
    return stated.lower() if isinstance(stated, str) and stated else None


def _layout_of(name: str, shape: tuple[int, ...], role: str, scheme: Scheme | None, transposed: bool) -> Layout | None:
    if scheme is None or (scheme.layout is None and not scheme.rules):
        return None
    fused = len(shape) == 3 and role == "expert"
    linear = len(shape) == 2 and name.endswith(".weight") and role not in {"norm", "position"}
    if not (fused or linear) or (fused and not _takes_fused(scheme, transposed)):
        return None
    conv1d = linear and transposed
    kind = "Embedding" if role == "embedding" else "Conv1D" if conv1d else "Linear"
    module = Module(module_names(name), kind)
    for rule in scheme.rules:
        if matches(rule.style, rule.patterns, module):
            return rule.layout
    return scheme.layout if role in scheme.roles and (scheme.conv1d or not conv1d) else None


def _takes_fused(scheme: Scheme, transposed: bool) -> bool:
    """FBGEMM knows one kind of fused experts, Llama 4's, whose matrices are transposed."""
    return scheme.fused_experts and (scheme.method != "fbgemm_fp8" or transposed)


def _part_name(name: str, suffix: str) -> str:
    if name.endswith(".weight"):
        return name.removesuffix("weight") + suffix
    return name if suffix == "weight" else f"{name}_{suffix.removeprefix('weight_')}"


def _tensor(name: str, shape: tuple[int, ...], dtype: str) -> Tensor:
    return Tensor(name, shape, dtype, tensor_bytes(shape, dtype, Place(key=name)))
