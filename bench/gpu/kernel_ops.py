"""The table of operations whose scratch and workspaces are measured: name -> (make, shapes).

Shapes are those of models; a name that ends in `_backward` gives gradients of what the name says. What may be slow,
because it tries many kernels, comes last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import kernel_calls as calls

Shape = dict[str, Any]


def grid(**choices: Sequence[Any]) -> list[Shape]:
    """Every combination."""
    return [dict(zip(choices, values, strict=True)) for values in product(*choices.values())]


def joined(*parts: list[Shape]) -> list[Shape]:
    """Each shape of the first list with each of every other."""
    return [{name: value for part in one for name, value in part.items()} for one in product(*parts)]


def shapes(names: str, *rows: tuple[int, ...]) -> list[Shape]:
    """Rows of numbers under their names."""
    return [dict(zip(names.split(), row, strict=True)) for row in rows]


def named(kind: str) -> list[Shape]:
    """Which of several operations that one function prepares."""
    return [{"kind": kind}]


THREE, TWO = grid(dtype=("float32", "bfloat16", "float16")), grid(dtype=("float32", "bfloat16"))
GEMMS = shapes("m n k", (512, 1024, 1024), (4096, 4096, 4096), (1, 4096, 4096), (2048, 151936, 1024))
CONVS = [
    {"n": 32, "c": 64, "size": 56, "out": 64, "kernel": 3},
    {"n": 32, "c": 3, "size": 224, "out": 64, "kernel": 7, "stride": 2},
    {"n": 32, "c": 256, "size": 14, "out": 1024, "kernel": 1},
    {"n": 32, "c": 512, "size": 7, "out": 512, "kernel": 3},
    {"n": 32, "c": 96, "size": 56, "out": 96, "kernel": 7, "groups": 96},
    {"n": 32, "c": 3, "size": 224, "out": 768, "kernel": 16, "stride": 16},
    {"n": 2, "c": 320, "size": 64, "out": 320, "kernel": 3, "channels_last": True},
]  # fmt: skip
HEADS = shapes(
    "b heads kv s d", (2, 16, 16, 1024, 64), (2, 16, 4, 1024, 64), (1, 24, 8, 2048, 128), (4, 16, 16, 1000, 128),
    (1, 8, 4, 2048, 256), (2, 12, 12, 777, 96), (1, 16, 16, 8192, 128),
)  # fmt: skip
CAUSAL, MASKED = grid(causal=(True, False)), grid(mask=(True,))
HALF = grid(dtype=("bfloat16",))
TABLES = shapes(
    "vocab hidden tokens", (50257, 768, 512), (151936, 1024, 2048), (151936, 1024, 4096), (32128, 512, 8192)
)  # fmt: skip
ROWS = shapes("rows hidden", (2048, 1024), (8192, 4096), (512, 768))
LOGITS = shapes("tokens vocab", (512, 151936), (2048, 128256), (4096, 50257))
REDUCED = shapes("rows columns", (2048, 1024), (64, 151936), (1, 4194304), (8192, 128))
IMAGES = shapes("n c size", (32, 64, 56), (8, 512, 14))
OPTIMIZED = shapes("weights count", (4194304, 8), (1000, 64))
REDUCTIONS = (
    "sum_all", "sum_first", "sum_last", "mean_all", "norm_all", "sort_last", "sort_flat", "argsort_stable",
    "topk_50", "cumsum_last", "cumsum_first", "softmax", "log_softmax_fp32", "logsumexp", "argmax", "max_last",
    "nonzero", "masked_select", "multinomial", "isfinite_all", "cat", "dropout", "where", "mean_square",
)  # fmt: skip
OVER_IMAGES = ("batch_norm", "group_norm", "max_pool2d", "interpolate")
SCATTERS = (
    "index_put", "index_put_accumulate", "index_add", "scatter_add", "index", "gather", "bincount", "unique",
    "randperm",
)  # fmt: skip
# What each forced attention kernel is asked: shapes, and what it takes beside them.
ATTENTION = {
    "flash": joined([{"kernel": "FLASH_ATTENTION"}], HEADS, CAUSAL, HALF),
    "efficient": joined(
        [{"kernel": "EFFICIENT_ATTENTION"}], [one | {"kv": one["heads"]} for one in HEADS], CAUSAL[1:] + MASKED, TWO
    ),
    "cudnn": joined([{"kernel": "CUDNN_ATTENTION"}], HEADS[:5], CAUSAL + MASKED, HALF),
    "math": joined([{"kernel": "MATH"}], HEADS[:2], CAUSAL + MASKED, TWO),
}
ROW_WRITES = shapes("size hidden tokens", (4096, 1024, 2048), (65536, 128, 16384))
BACK, FORTH = [{"backward": True}], [{"backward": False}]
OPS: dict[str, tuple[Callable[..., calls.Call], list[Shape]]] = {
    "mm": (calls.mm, joined(GEMMS, THREE)),
    "mm_backward": (calls.mm_backward, joined(GEMMS, THREE)),
    "addmm": (calls.addmm, joined(GEMMS, THREE)),
    "addmm_backward": (calls.addmm_backward, joined(GEMMS, THREE)),
    "bmm": (calls.bmm, joined(shapes("batch m n k", (32, 1024, 1024, 64), (16, 2048, 128, 2048)), THREE)),
    **{f"sdpa_{name}": (calls.sdpa, joined(asked, FORTH)) for name, asked in ATTENTION.items()},
    **{f"sdpa_{name}_backward": (calls.sdpa, joined(asked, BACK)) for name, asked in ATTENTION.items()},
    "embedding_backward": (calls.embedding_backward, joined(TABLES, TWO)),
    "cross_entropy": (calls.cross_entropy, joined(LOGITS, TWO, FORTH)),
    "cross_entropy_backward": (calls.cross_entropy, joined(LOGITS, TWO, BACK)),
    "layer_norm": (calls.norm, joined(named("layer_norm"), ROWS, TWO)),
    "rms_norm": (calls.norm, joined(named("rms_norm"), ROWS, TWO)),
    "layer_norm_backward": (calls.norm_backward, joined(named("layer_norm"), ROWS, TWO)),
    "rms_norm_backward": (calls.norm_backward, joined(named("rms_norm"), ROWS, TWO)),
    **{name: (calls.over, joined(named(name), REDUCED, TWO)) for name in REDUCTIONS},
    **{name: (calls.scattered, joined(named(name), ROW_WRITES, TWO)) for name in SCATTERS},
    "index_backward": (calls.index_backward, joined(ROW_WRITES[:1], TWO)),
    "adamw_foreach": (calls.optimizer_step, joined(named("AdamW"), OPTIMIZED, TWO)),
    "adamw_fused": (calls.optimizer_step, joined(named("AdamW"), OPTIMIZED, TWO, [{"fused": True}])),
    "adafactor": (calls.optimizer_step, joined(named("Adafactor"), OPTIMIZED, TWO)),
    "clip_grad_norm": (calls.clip, joined(OPTIMIZED, TWO)),
    "gemm_4bit": (calls.gemm_4bit, shapes("rows out hidden", (1, 4096, 4096), (32, 4096, 4096), (2048, 8192, 3072))),
    "int_mm": (calls.int_mm, shapes("m n k", (512, 1024, 1024), (4096, 4096, 4096))),
    "scaled_mm": (calls.scaled_mm, shapes("m n k", (512, 1024, 1024), (4096, 4096, 4096))),
    "grouped_mm": (calls.grouped_mm, shapes("experts m n k", (8, 256, 2048, 1024))),
    **{f"{name}_backward": (calls.channels_backward, joined(named(name), IMAGES, TWO)) for name in OVER_IMAGES},
    "conv": (calls.conv, joined(CONVS, TWO, FORTH)),
    "conv_backward": (calls.conv, joined(CONVS, TWO, BACK)),
    "conv1d": (calls.conv1d, joined(shapes("n c length out kernel", (8, 80, 3000, 384, 3)), TWO)),
    "lstm": (calls.lstm, shapes("batch length hidden", (32, 128, 512))),
    "conv_benchmark": (calls.conv, joined(CONVS, TWO, FORTH, [{"benchmark": True}])),
    "conv_backward_benchmark": (calls.conv, joined(CONVS, TWO, BACK, [{"benchmark": True}])),
}
NEEDS = {"gemm_4bit": "bitsandbytes"}


def tiny(shape: Shape) -> Shape:
    """The same shape in small, to see that the call is right."""
    return {name: min(value, 16) if type(value) is int else value for name, value in shape.items()}
