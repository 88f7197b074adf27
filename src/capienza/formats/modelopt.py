"""NVIDIA Model Optimizer's unified checkpoints: FP8 per tensor and NVFP4.

Legend: FP8 keeps one fp32 scale for the weight and one for its input; NVFP4 see fp4. Modules to leave alone are
exact names, names of what contains them, or shell patterns. Scales of a quantised cache are not weights and are
left out (two fp32 numbers a layer).
Source: TensorRT Model Optimizer, export of unified Hugging Face checkpoints; vLLM's reader of them.
"""

from __future__ import annotations

from capienza.formats.fp4 import Nvfp4
from capienza.formats.fp8 import Fp8
from capienza.formats.keys import Keys
from capienza.formats.layout import Layout, Scheme

ALGORITHMS: dict[str, Layout] = {
    "fp8": Fp8(scale="weight_scale", static=True, activation="input_scale"),
    "nvfp4": Nvfp4(),
    "w4a16_nvfp4": Nvfp4(activation=None),
}


def read_modelopt(keys: Keys) -> Scheme:
    """The scheme of a `modelopt` configuration. Raises `InputErrors`."""
    algorithm = keys.word("quant_algo", ALGORITHMS)
    if algorithm != "fp8":
        keys.integer("group_size", (16,), 16)
    ignored = keys.names("ignore", "exclude_modules")
    keys.ignore(
        "quant_method", "config_groups", "group_size", "kv_cache_scheme", "kv_cache_quant_algo", "producer",
        "weights", "input_activations",
    )  # fmt: skip
    keys.done()
    rules = (keys.rule("glob", "ignore", ignored),) if ignored else ()
    return Scheme(method="modelopt", name=f"modelopt {algorithm}", layout=ALGORITHMS[algorithm], rules=rules)
