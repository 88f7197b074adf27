"""What an operation takes beside its outputs, and what stays after it; which attention kernel torch chooses.

`scratch` = highest reading during the call - held before it - outputs; `stays` = held after the outputs are gone - held
before. The workspaces of cuBLAS are cleared before each shape: the first call makes them, the second finds them, and
both are written. `requested` counts bytes as asked for; `allocated` counts blocks, which are rounded up to 512 B and
may be larger where no rest was split off.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from kernel_ops import OPS, tiny


def storages(found: Any) -> dict[int, int]:
    """Bytes of each storage among the outputs, by its identity: views count once."""
    import torch

    if isinstance(found, torch.Tensor):
        return {found.untyped_storage()._cdata: found.untyped_storage().nbytes()}
    if isinstance(found, (tuple, list)):
        return {key: size for one in found for key, size in storages(one).items()}
    return {}


def call_once(call: Any, counters: Any) -> dict[str, Any]:
    """One call between two readings."""
    before = counters.read()
    counters.start()
    out = call()
    during = counters.read()
    sizes = list(storages(out).values())
    del out
    after = counters.read()
    outputs = {"requested": sum(sizes), "allocated": sum(-(-size // 512) * 512 for size in sizes)}
    found: dict[str, Any] = {"outputs": outputs}
    if before:
        for name, taken in outputs.items():
            held, peak = before["now"][name], during["peak"][name]
            found[name] = {
                "peak_over_before": peak - held, "scratch": peak - held - taken, "stays": after["now"][name] - held,
            }  # fmt: skip
        found["cudamallocs"] = (after["counts"]["cudamallocs"] or 0) - (before["counts"]["cudamallocs"] or 0)
        found["outside_growth"] = after["outside"] - before["outside"]
    return found


def kernel_lines(name: str, device: str, counters: Any, *, is_tiny: bool) -> list[dict[str, Any]]:
    """One line a shape; a shape that this card or release refuses says why."""
    make, shapes = OPS[name]
    found = []
    for shape in shapes:
        counters.clean()
        line: dict[str, Any] = {"kind": "kernel", "name": name, "shape": tiny(shape) if is_tiny else shape}
        try:
            call = make(device, **line["shape"])
            line["calls"] = [call_once(call, counters) for _ in range(2)]
        except (RuntimeError, TypeError, AttributeError, NotImplementedError, ValueError) as error:
            if "CUDA error" in str(error):
                raise
            line["refused"] = f"{type(error).__name__}: {str(error)[:300]}"
        call = None
        found.append(line)
    return found


BACKENDS = {-1: "error", 0: "math", 1: "flash", 2: "efficient", 3: "cudnn", 4: "overrideable"}
HEADS_ASKED, KEYS_AT_LEAST = {False: 8, True: 2}, 128
CHOICES = {
    "dtype": ("float32", "float16", "bfloat16"),
    "d": (32, 64, 72, 80, 96, 100, 128, 192, 256),
    "mask": ("none", "causal", "bool", "float", "row"),
    "grouped": (False, True),
    "training": (False, True),
    "s": (1, 128, 1000),
}


def choice_lines(device: str, *, is_tiny: bool) -> list[dict[str, Any]]:
    """Which kernel `scaled_dot_product_attention` takes, asked of torch itself, one line a combination."""
    import torch

    found = []
    choices = {name: values[:2] if is_tiny else values for name, values in CHOICES.items()}
    for values in product(*choices.values()):
        asked = dict(zip(choices, values, strict=True))
        try:
            backend, nodes = chosen(device, **asked)
            found.append({"kind": "sdpa_choice", **asked, "chosen": backend, "autograd": nodes})
        except (RuntimeError, TypeError, AttributeError) as error:
            if "CUDA error" in str(error):
                raise
            found.append({"kind": "sdpa_choice", **asked, "refused": f"{type(error).__name__}: {str(error)[:200]}"})
    order = getattr(torch._C, "_get_sdp_priority_order", None)
    found.append(
        {"kind": "sdpa_order", "order": [BACKENDS.get(int(one), str(one)) for one in order()] if order else None}
    )
    return found


def chosen(device: str, *, dtype: str, d: int, mask: str, grouped: bool, training: bool, s: int) -> Any:
    """torch's answer for one call, and the autograd nodes that the call left (training only)."""
    import torch

    b, heads, kv, kind = 2, HEADS_ASKED[False], HEADS_ASKED[grouped], getattr(torch, dtype)
    keys = max(s, KEYS_AT_LEAST)
    q = torch.zeros(b, heads, s, d, dtype=kind, device=device, requires_grad=training)
    k, v = (torch.zeros(b, kv, keys, d, dtype=kind, device=device, requires_grad=training) for _ in "kv")
    masks = {
        "bool": lambda: torch.ones(b, 1, s, keys, dtype=torch.bool, device=device),
        "float": lambda: torch.zeros(b, 1, s, keys, dtype=kind, device=device),
        "row": lambda: torch.ones(b, 1, 1, keys, dtype=torch.bool, device=device),
    }
    options = {
        "attn_mask": masks[mask]() if mask in masks else None,
        "is_causal": mask == "causal",
        "enable_gqa": grouped,
    }
    # torch refuses a forced choice only when it is called: the question itself takes all switches as they are.
    backend = BACKENDS.get(int(torch._fused_sdp_choice(q, k, v, dropout_p=0.0, scale=None, **options)), "unknown")
    if not training:
        return backend, None
    out = torch.nn.functional.scaled_dot_product_attention(q, k, v, **options)
    names, nodes = set(), [out.grad_fn]
    while nodes:
        node = nodes.pop()
        if node is None:
            continue
        names.add(node.name())
        nodes += [one for one, _ in node.next_functions]
    return backend, sorted(name for name in names if "DotProduct" in name or "Attention" in name)
