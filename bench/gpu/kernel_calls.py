"""The operations whose scratch and workspaces are measured, each as a function that prepares one call.

`make(device, **shape)` makes the inputs and returns the call; what the call returns are its outputs. A backward is a
call of autograd over a graph made beforehand, so that it runs in autograd's own thread, as in a training.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Call = Callable[[], Any]


def tensor(device: str, *shape: int, dtype: str = "float32", grad: bool = False) -> Any:
    """Random values of a type."""
    import torch

    return torch.randn(*shape, device=device).to(getattr(torch, dtype)).requires_grad_(grad)


def whole(device: str, high: int, *shape: int) -> Any:
    """Random whole numbers below `high`."""
    import torch

    return torch.randint(high, shape, device=device)


def gradients(out: Any, inputs: Sequence[Any]) -> Call:
    """The backward pass of `out`, again and again."""
    import torch

    ones = torch.ones_like(out)
    return lambda: torch.autograd.grad(out, inputs, ones, retain_graph=True)


def mm(device: str, m: int, n: int, k: int, dtype: str) -> Call:
    """A product without bias: cuBLAS from the thread that calls."""
    a, b = tensor(device, m, k, dtype=dtype), tensor(device, k, n, dtype=dtype)
    return lambda: a @ b


def mm_backward(device: str, m: int, n: int, k: int, dtype: str) -> Call:
    """Its gradients: cuBLAS from autograd's thread, which has a workspace of its own."""
    a, b = tensor(device, m, k, dtype=dtype, grad=True), tensor(device, k, n, dtype=dtype, grad=True)
    return gradients(a @ b, (a, b))


def addmm(device: str, m: int, n: int, k: int, dtype: str) -> Call:
    """A linear layer with bias: cuBLASLt where torch takes it."""
    import torch

    x, w, b = (tensor(device, *size, dtype=dtype) for size in ((m, k), (n, k), (n,)))
    return lambda: torch.nn.functional.linear(x, w, b)


def addmm_backward(device: str, m: int, n: int, k: int, dtype: str) -> Call:
    """Gradients of a linear layer with bias; that of the bias is a sum over the rows."""
    import torch

    x, w, b = (tensor(device, *size, dtype=dtype, grad=True) for size in ((m, k), (n, k), (n,)))
    return gradients(torch.nn.functional.linear(x, w, b), (x, w, b))


def bmm(device: str, batch: int, m: int, n: int, k: int, dtype: str) -> Call:
    """A batched product."""
    a, b = tensor(device, batch, m, k, dtype=dtype), tensor(device, batch, k, n, dtype=dtype)
    return lambda: a @ b


def int_mm(device: str, m: int, n: int, k: int) -> Call:
    """int8 x int8 -> int32."""
    import torch

    a, b = whole(device, 100, m, k).to(torch.int8), whole(device, 100, k, n).to(torch.int8)
    return lambda: torch._int_mm(a, b)


def scaled_mm(device: str, m: int, n: int, k: int) -> Call:
    """fp8 x fp8 -> bf16 with one scale each."""
    import torch

    a = tensor(device, m, k).to(torch.float8_e4m3fn)
    b = tensor(device, n, k).to(torch.float8_e4m3fn).t()
    one = torch.ones((), device=device)
    return lambda: torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)


def grouped_mm(device: str, experts: int, m: int, n: int, k: int) -> Call:
    """Rows of tokens sorted by expert, one product an expert."""
    import torch

    a, b = tensor(device, experts * m, k, dtype="bfloat16"), tensor(device, experts, k, n, dtype="bfloat16")
    ends = torch.arange(1, experts + 1, device=device, dtype=torch.int32) * m
    named = getattr(torch.nn.functional, "grouped_mm", None) or torch._grouped_mm
    return lambda: named(a, b, offs=ends)


def conv(device: str, *, backward: bool, benchmark: bool = False, **shape: Any) -> Call:
    """A convolution in two dimensions; `groups` = channels is the depthwise kind."""
    import torch

    n, c, size, out, kernel = (shape[name] for name in ("n", "c", "size", "out", "kernel"))
    groups, dtype = min(shape.get("groups", 1), c), shape["dtype"]
    x = tensor(device, n, c, size, size, dtype=dtype, grad=backward)
    w = tensor(device, out, c // groups, kernel, kernel, dtype=dtype, grad=backward)
    options = {"stride": min(shape.get("stride", 1), size), "padding": kernel // 2, "groups": groups}
    if shape.get("channels_last"):
        x = x.detach().to(memory_format=torch.channels_last).requires_grad_(backward)

    def call() -> Any:
        with torch.backends.cudnn.flags(enabled=True, benchmark=benchmark):
            return torch.nn.functional.conv2d(x, w, **options)

    if not backward:
        return call
    again = gradients(call(), (x, w))

    def back() -> Any:
        with torch.backends.cudnn.flags(enabled=True, benchmark=benchmark):
            return again()

    return back


def conv1d(device: str, n: int, c: int, length: int, out: int, kernel: int, dtype: str) -> Call:
    """A convolution over a sequence, forward and backward in one."""
    import torch

    x, w = tensor(device, n, c, length, dtype=dtype, grad=True), tensor(device, out, c, kernel, dtype=dtype, grad=True)
    return lambda: torch.autograd.grad(torch.nn.functional.conv1d(x, w, padding=1).sum(), (x, w))


def sdpa(device: str, *, backward: bool, kernel: str, **shape: Any) -> Call:
    """Attention by one forced kernel; `kv` heads fewer than `heads` ask for grouped queries."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    b, h, kv, s, d = (shape[name] for name in ("b", "heads", "kv", "s", "d"))
    q = tensor(device, b, h, s, d, dtype=shape["dtype"], grad=True)
    k, v = (tensor(device, b, kv, s, d, dtype=shape["dtype"], grad=True) for _ in "kv")
    options: dict[str, Any] = {"is_causal": bool(shape.get("causal"))} | ({"enable_gqa": True} if kv != h else {})
    if shape.get("mask"):
        options["attn_mask"] = torch.ones(b, 1, s, s, dtype=torch.bool, device=device).tril()

    def call() -> Any:
        with sdpa_kernel(getattr(SDPBackend, kernel)):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, **options)

    return gradients(call(), (q, k, v)) if backward else call


def embedding_backward(device: str, vocab: int, hidden: int, tokens: int, dtype: str) -> Call:
    """The dense gradient of a table; torch takes another way above 3,072 indices."""
    import torch

    table, rows = tensor(device, vocab, hidden, dtype=dtype, grad=True), whole(device, vocab, tokens)
    return gradients(torch.nn.functional.embedding(rows, table), (table,))


def cross_entropy(device: str, *, backward: bool, tokens: int, vocab: int, dtype: str) -> Call:
    """The loss over logits, or its gradient."""
    import torch

    logits, labels = tensor(device, tokens, vocab, dtype=dtype, grad=True), whole(device, vocab, tokens)
    if backward:
        return gradients(torch.nn.functional.cross_entropy(logits, labels), (logits,))
    return lambda: torch.nn.functional.cross_entropy(logits, labels)


def norm_backward(device: str, kind: str, rows: int, hidden: int, dtype: str) -> Call:
    """Gradients of layer_norm or rms_norm, of input and weights."""
    import torch

    x, w = tensor(device, rows, hidden, dtype=dtype, grad=True), tensor(device, hidden, dtype=dtype, grad=True)
    out = getattr(torch.nn.functional, kind)(x, (hidden,), w)
    return gradients(out, (x, w))


def norm(device: str, kind: str, rows: int, hidden: int, dtype: str) -> Call:
    """layer_norm or rms_norm."""
    import torch

    x, w = tensor(device, rows, hidden, dtype=dtype), tensor(device, hidden, dtype=dtype)
    return lambda: getattr(torch.nn.functional, kind)(x, (hidden,), w)


def channels_backward(device: str, kind: str, n: int, c: int, size: int, dtype: str) -> Call:
    """Gradients of batch_norm, group_norm, max_pool2d or interpolate over images."""
    import torch

    f = torch.nn.functional
    x, w, b = tensor(device, n, c, size, size, dtype=dtype, grad=True), *(tensor(device, c, grad=True) for _ in "wb")
    made = {
        "batch_norm": lambda: f.batch_norm(x, None, None, w, b, training=True),
        "group_norm": lambda: f.group_norm(x, 8, w.to(x.dtype), b.to(x.dtype)),
        "max_pool2d": lambda: f.max_pool2d(x, 3, 2, 1),
        "interpolate": lambda: f.interpolate(x, scale_factor=2.0),
    }
    return gradients(made[kind](), (x,))


def over(device: str, kind: str, rows: int, columns: int, dtype: str) -> Call:
    """One reduction, scan or search over a table of random values."""
    import torch

    x = tensor(device, rows, columns, dtype=dtype)
    positive = x.float().abs_() if kind == "multinomial" else x
    calls: dict[str, Call] = {
        "sum_all": lambda: x.sum(), "sum_first": lambda: x.sum(0), "sum_last": lambda: x.sum(-1),
        "mean_all": lambda: x.mean(), "norm_all": lambda: torch.linalg.vector_norm(x),
        "sort_last": lambda: torch.sort(x, dim=-1), "sort_flat": lambda: torch.sort(x.flatten()),
        "argsort_stable": lambda: torch.argsort(x, dim=-1, stable=True),
        "topk_50": lambda: torch.topk(x, min(50, columns)),
        "cumsum_last": lambda: torch.cumsum(x, -1), "cumsum_first": lambda: torch.cumsum(x, 0),
        "softmax": lambda: torch.softmax(x, -1), "log_softmax_fp32": lambda: torch.log_softmax(x, -1, torch.float32),
        "logsumexp": lambda: torch.logsumexp(x, -1), "argmax": lambda: x.argmax(-1), "max_last": lambda: x.max(-1),
        "nonzero": lambda: torch.nonzero(x > 0), "masked_select": lambda: torch.masked_select(x, x > 0),
        "multinomial": lambda: torch.multinomial(positive, 1), "isfinite_all": lambda: torch.isfinite(x).all(),
        "cat": lambda: torch.cat((x, x), -1), "dropout": lambda: torch.nn.functional.dropout(x, 0.1),
        "where": lambda: torch.where(x > 0, x, 0.0), "mean_square": lambda: x.float().pow(2).mean(-1),
    }  # fmt: skip
    return calls[kind]


def scattered(device: str, kind: str, size: int, hidden: int, tokens: int, dtype: str) -> Call:
    """Writes at random rows."""
    import torch

    table, rows = tensor(device, size, hidden, dtype=dtype), whole(device, size, tokens)
    values = tensor(device, tokens, hidden, dtype=dtype)
    wide = rows[:, None].expand(-1, hidden)
    calls: dict[str, Call] = {
        "index_put": lambda: table.index_put_((rows,), values) is None,
        "index_put_accumulate": lambda: table.index_put_((rows,), values, accumulate=True) is None,
        "index_add": lambda: table.index_add_(0, rows, values) is None,
        "scatter_add": lambda: table.scatter_add_(0, wide, values) is None,
        "index": lambda: table[rows], "gather": lambda: table.gather(0, wide),
        "bincount": lambda: torch.bincount(rows, minlength=size), "unique": lambda: torch.unique(rows),
        "randperm": lambda: torch.randperm(size, device=device),
    }  # fmt: skip
    return calls[kind]


def index_backward(device: str, size: int, hidden: int, tokens: int, dtype: str) -> Call:
    """The gradient of `table[rows]`: a sorted accumulation."""
    table, rows = tensor(device, size, hidden, dtype=dtype, grad=True), whole(device, size, tokens)
    return gradients(table[rows], (table,))


def optimizer_step(device: str, kind: str, weights: int, count: int, dtype: str, **options: Any) -> Call:
    """A step once states exist is the second call; the first one makes them, and they stay."""
    import torch

    held = [tensor(device, weights, dtype=dtype, grad=True) for _ in range(count)]
    for one in held:
        one.grad = torch.ones_like(one)
    made = getattr(torch.optim, kind)(held, lr=1e-3, **options)
    return lambda: made.step()


def clip(device: str, weights: int, count: int, dtype: str) -> Call:
    """clip_grad_norm_ over several gradients."""
    import torch

    held = [tensor(device, weights, dtype=dtype, grad=True) for _ in range(count)]
    for one in held:
        one.grad = torch.ones_like(one)
    return lambda: torch.nn.utils.clip_grad_norm_(held, 1.0)


def lstm(device: str, batch: int, length: int, hidden: int) -> Call:
    """A recurrent layer of cuDNN, forward and backward in one."""
    import torch

    layer = torch.nn.LSTM(hidden, hidden, batch_first=True, device=device)
    x = tensor(device, batch, length, hidden)
    return lambda: torch.autograd.grad(layer(x)[0].sum(), tuple(layer.parameters()))


def gemm_4bit(device: str, rows: int, out: int, hidden: int) -> Call:
    """A linear layer over 4-bit weights; above some number of rows the whole weight is unpacked."""
    import bitsandbytes

    layer = bitsandbytes.nn.Linear4bit(hidden, out, bias=False, quant_type="nf4").to(device)
    x = tensor(device, rows, hidden, dtype="bfloat16")
    return lambda: layer(x)
