"""The kinds of weights, in the words that rules of compatibility use: "fp8", "awq", "ct-w8a8-fp8", "bnb-4bit".

A scheme's bytes do not tell everything: compressed-tensors stores W8A8 and W8A16 alike, and engines treat them apart.
"""

from __future__ import annotations

from capienza.formats.layout import Scheme

PLAIN = "plain"
GGUF = "gguf"
BY_METHOD = {"fbgemm_fp8": "fbgemm-fp8", "plain": PLAIN, "modelopt_fp4": "modelopt-nvfp4"}
NAMES = {
    "auto-round": "auto-round", "auto_round": "auto-round", "awq_marlin": "awq-marlin", "auto_awq": "awq",
    "auto_gptq": "gptq", "gptq_marlin": "gptq-marlin", "bitsandbytes": "bnb-4bit", "blockwise_int8": "blockwise-int8",
    "experts_int8": "experts-int8", "fbgemm_fp8": "fbgemm-fp8", "fp_quant": "fp-quant", "modelopt": "modelopt-fp8",
    "modelopt_fp4": "modelopt-nvfp4", "modelopt_fp8": "modelopt-fp8", "modelopt_mxfp8": "modelopt-mxfp8",
    "moe_wna16": "moe-wna16", "nvfp4_online": "nvfp4-online", "nvfp4": "nvfp4-online", "petit_nvfp4": "petit-nvfp4",
    "w8a8_fp8": "w8a8-fp8", "w8a8_int8": "w8a8-int8",
    **{name: name for name in ("aqlm", "awq", "fp8", "gguf", "gptq", "humming", "mxfp4", "mxfp8", "online", "quark",
                               "torchao", "w4afp8")},
}  # fmt: skip
"""Methods as configurations and the engines' `quantization` option write them."""


def kinds_of(scheme: Scheme | None) -> tuple[str, ...]:
    """The kinds of weights of a scheme; plain ones without."""
    if scheme is None or (scheme.layout is None and not scheme.rules):
        return (PLAIN,)
    if scheme.computed:
        return tuple(f"ct-{computed}" for computed in scheme.computed)
    if scheme.method == "bitsandbytes":
        return ("bnb-int8" if scheme.name == "int8" else "bnb-4bit",)
    if scheme.method == "modelopt":
        return ("modelopt-fp8" if scheme.name.endswith(" fp8") else "modelopt-nvfp4",)
    return (BY_METHOD.get(scheme.method, scheme.method),)


def kind_named(method: str) -> str | None:
    """The kind that a method's name stands for; None for one that is not known."""
    return NAMES.get(method.strip().casefold())
