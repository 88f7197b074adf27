"""torchtune's layer, adapter and loss as a program of their own, for the trace: the operations that its modules run.

Written after torchtune 0.6.1 (modules/transformer.py, attention.py, position_embeddings.py, rms_norm.py, peft/lora.py,
loss/ce_chunked_output_loss.py) and torchao 0.10 (dtypes/nf4tensor.py).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.functional import cross_entropy, embedding, linear, rms_norm, scaled_dot_product_attention, silu
from torch.utils.checkpoint import checkpoint

RANK, PIECES = 8, 8


class Sizes(NamedTuple):
    """A small model, and what is trained."""

    layers: int = 3
    width: int = 256
    inner: int = 704
    heads: int = 4
    groups: int = 2
    vocabulary: int = 2000
    tokens: int = 320
    rows: int = 1
    is_full: bool = False
    is_quantised: bool = False
    is_checkpointed: bool = False


def unpacked(packed: Any, scales: Any, values: Any, shape: Any) -> Any:
    """Two 4-bit numbers a byte, looked up and scaled."""
    first, second = (packed >> 4).to(torch.long), (packed & 0b1111).to(torch.long)
    of_first, of_second = values[first], values[second]
    repeated = scales.unsqueeze(-1).expand(scales.size(0), 32)
    one = of_first * repeated.flatten()
    two = of_second * repeated.flatten()
    one, two = one.unsqueeze(-1).transpose(0, 1), two.unsqueeze(-1).transpose(0, 1)
    return torch.stack([one, two], dim=-1).reshape(shape)


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Any, packed: Any, scales: Any, values: Any, shape: Any) -> Any:
        ctx.save_for_backward(packed, scales, values)
        ctx.shape = shape
        return linear(rows, unpacked(packed, scales, values, shape))

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient @ unpacked(*ctx.saved_tensors, ctx.shape), None, None, None, None


class Linear(nn.Module):
    def __init__(self, inputs: int, results: int, sizes: Sizes, *, is_adapted: bool = True) -> None:
        super().__init__()
        self.is_quantised = sizes.is_quantised and is_adapted
        self.is_adapted = is_adapted and not sizes.is_full
        made = {"dtype": torch.bfloat16, "device": "cuda"}
        self.shape = (results, inputs)
        if self.is_quantised:
            self.packed = torch.zeros(inputs * results // 2, dtype=torch.uint8, device="cuda")
            self.scales, self.values = torch.empty(inputs * results // 64, **made), torch.empty(16, **made)
        else:
            self.weight = nn.Parameter(torch.empty(self.shape, **made), requires_grad=sizes.is_full)
        if self.is_adapted:
            self.down = nn.Parameter(torch.empty(RANK, inputs, **made))
            self.up = nn.Parameter(torch.empty(results, RANK, **made))

    def forward(self, rows: Any) -> Any:
        if self.is_quantised:
            made = Product.apply(rows, self.packed, self.scales, self.values, self.shape)
        else:
            made = linear(rows, self.weight)
        if not self.is_adapted:
            return made
        update = linear(rows, self.down)
        update = 2.0 * linear(update, self.up)
        return made + update


class Norm(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        weight = torch.ones(sizes.width, dtype=torch.bfloat16, device="cuda")
        self.weight = nn.Parameter(weight, requires_grad=sizes.is_full)

    def forward(self, rows: Any) -> Any:
        return rms_norm(rows.float(), self.weight.shape, self.weight, 1e-6).to(rows.dtype)


class Layer(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes, head = sizes, sizes.width // sizes.heads
        self.first, self.second = Norm(sizes), Norm(sizes)
        self.query, self.out = (Linear(sizes.width, sizes.width, sizes) for _ in range(2))
        self.key, self.value = (Linear(sizes.width, head * sizes.groups, sizes) for _ in range(2))
        self.gate, self.up = (Linear(sizes.width, sizes.inner, sizes) for _ in range(2))
        self.down = Linear(sizes.inner, sizes.width, sizes)
        self.table = torch.empty(sizes.tokens, head // 2, 2, device="cuda")

    def turned(self, rows: Any) -> Any:
        pairs = rows.float().reshape(*rows.shape[:-1], -1, 2)
        table = self.table.view(1, pairs.size(1), 1, pairs.size(3), 2)
        made = torch.stack(
            [
                pairs[..., 0] * table[..., 0] - pairs[..., 1] * table[..., 1],
                pairs[..., 1] * table[..., 0] + pairs[..., 0] * table[..., 1],
            ],
            -1,
        )
        made = made.flatten(3)
        return made.type_as(rows)

    def attention(self, rows: Any) -> Any:
        sizes, (count, tokens, _) = self.sizes, rows.shape
        head, each = sizes.width // sizes.heads, sizes.heads // sizes.groups
        query = self.turned(self.query(rows).view(count, tokens, sizes.heads, head)).transpose(1, 2)
        key, value = self.key(rows), self.value(rows)
        key = self.turned(key.view(count, tokens, sizes.groups, head)).transpose(1, 2)
        value = value.view(count, tokens, sizes.groups, head).transpose(1, 2)
        if each > 1:
            shape = (count, sizes.groups, each, -1, head)
            key = key.unsqueeze(2).expand(shape).flatten(1, 2)
            value = value.unsqueeze(2).expand(shape).flatten(1, 2)
        made = scaled_dot_product_attention(query, key, value, is_causal=True)
        made = made.transpose(1, 2).contiguous().view(count, tokens, -1)
        return self.out(made)

    def mlp(self, rows: Any) -> Any:
        made = silu(self.gate(rows))
        made = made * self.up(rows)
        return self.down(made)

    def forward(self, rows: Any) -> Any:
        made = self.first(rows)
        seen = self.attention(made)
        made = seen + rows
        fed = self.mlp(self.second(made))
        return made + fed


class Model(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        table = torch.empty(sizes.vocabulary, sizes.width, dtype=torch.bfloat16, device="cuda")
        self.table = nn.Parameter(table, requires_grad=sizes.is_full)
        self.layers, self.last = nn.ModuleList(Layer(sizes) for _ in range(sizes.layers)), Norm(sizes)
        self.head = Linear(sizes.width, sizes.vocabulary, sizes, is_adapted=False)

    def forward(self, numbers: Any) -> Any:
        rows = embedding(numbers, self.table)
        for layer in self.layers:
            rows = checkpoint(layer, rows, use_reentrant=False) if self.sizes.is_checkpointed else layer(rows)
        rows = self.last(rows)
        return [self.head(one) for one in rows.chunk(PIECES, dim=1)]


def loss_of(logits: Any, labels: Any) -> Any:
    """The sum over pieces, each in fp32."""
    wanted = [one.reshape(-1) for one in labels.chunk(PIECES, dim=1)]
    logits = [one.reshape(-1, one.size(-1)) for one in logits]
    total: Any = 0.0
    for one, two in zip(logits, wanted, strict=True):
        total += cross_entropy(one.float(), two, reduction="sum")
    return total / 7
