"""LitGPT's block, adapter and loss as a program of their own, for the trace: the operations that its modules run.

Written after litgpt 0.4.13 and 0.5.7 (model.py, lora.py, utils.py) and lightning 2.4 (convert_output); a quantised
product keeps its input beyond its backward pass, as bitsandbytes 0.42 does.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.functional import conv1d, cross_entropy, dropout, gelu, linear, scaled_dot_product_attention, silu

RANK, PIECE = 8, 128


class Sizes(NamedTuple):
    """A small model, and the choices of its family."""

    layers: int = 3
    width: int = 256
    inner: int = 704
    heads: int = 4
    groups: int = 2
    vocabulary: int = 2000
    tokens: int = 300
    rows: int = 1
    is_quantised: bool = False
    is_parallel: bool = False
    share: float = 1.0
    is_full: bool = False


class Product(torch.autograd.Function):
    """A product with a weight that is unpacked in half, and copied."""

    @staticmethod
    def forward(ctx: Any, rows: Any, packed: Any, shape: Any) -> Any:
        ctx.shape = shape
        made = linear(rows, torch.empty(shape, dtype=torch.half, device="cuda").to(rows.dtype))
        ctx.tensors = (rows, packed) if any(ctx.needs_input_grad[:2]) else None
        return made

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        weight = torch.empty(ctx.shape, dtype=torch.half, device="cuda").to(gradient.dtype)
        return torch.matmul(gradient, weight), None, None


class Linear(nn.Module):
    def __init__(self, inputs: int, results: int, sizes: Sizes) -> None:
        super().__init__()
        self.shape, self.is_quantised = (results, inputs), sizes.is_quantised
        count, dtype = (
            (inputs * results // 2, torch.uint8) if sizes.is_quantised else (inputs * results, torch.bfloat16)
        )
        weight = torch.empty(count, dtype=dtype, device="cuda")
        weight = weight if sizes.is_quantised else weight.view(self.shape)
        self.weight = nn.Parameter(weight, requires_grad=sizes.is_full)

    def forward(self, rows: Any) -> Any:
        return Product.apply(rows, self.weight, self.shape) if self.is_quantised else linear(rows, self.weight)


class Joined(nn.Module):
    """The product for query, key and value, with adapters of query and value."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        head = sizes.width // sizes.heads
        self.results, self.groups = head * (sizes.heads + 2 * sizes.groups), sizes.groups
        self.shapes = [head * sizes.heads, head * sizes.groups]
        self.linear, self.is_full = Linear(sizes.width, self.results, sizes), sizes.is_full
        self.is_grouped = sizes.heads != sizes.groups
        if not sizes.is_full:
            self.down = nn.Parameter(torch.empty(2 * RANK, sizes.width, dtype=torch.bfloat16, device="cuda"))
            self.up = nn.Parameter(torch.empty(sum(self.shapes), RANK, dtype=torch.bfloat16, device="cuda"))
            self.places = torch.zeros(sum(self.shapes), dtype=torch.int64, device="cuda")

    def forward(self, rows: Any) -> Any:
        whole = self.linear(rows)
        if self.is_full:
            return whole
        low = linear(dropout(rows, 0.05), self.down).transpose(-2, -1)
        up = self.up.unsqueeze(-1)
        if self.is_grouped:
            wide = torch.cat([conv1d(a, b) for a, b in zip(low.chunk(2, 1), up.split(self.shapes), strict=True)], 1)
        else:
            wide = conv1d(low, up, groups=2)
        wide = wide.transpose(-2, -1)
        zeros = wide.new_zeros(*wide.shape[:-1], self.results)
        return whole + zeros.index_copy_(-1, self.places, wide) * 2.0


class Norm(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        weight = torch.ones(sizes.width, dtype=torch.bfloat16, device="cuda")
        self.weight = nn.Parameter(weight, requires_grad=sizes.is_full)

    def forward(self, rows: Any) -> Any:
        dtype = rows.dtype
        rows = rows.float()
        middle = torch.mean(rows * rows, dim=-1, keepdim=True)
        normed = rows * torch.rsqrt(middle + 1e-6)
        return (normed * self.weight.float()).to(dtype)


def turned(rows: Any, cosine: Any, sine: Any) -> Any:
    half = rows.size(-1) // 2
    rotated = torch.cat((-rows[..., half:], rows[..., :half]), -1)
    made = rows * cosine + rotated * sine
    return made.to(rows.dtype)


class Attention(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes, self.attn, self.proj = sizes, Joined(sizes), Linear(sizes.width, sizes.width, sizes)

    def forward(self, rows: Any, cosine: Any, sine: Any) -> Any:
        sizes, (count, tokens, _) = self.sizes, rows.shape
        head, each = sizes.width // sizes.heads, sizes.heads // sizes.groups
        joined = self.attn(rows)
        joined = joined.view(count, tokens, sizes.groups, each + 2, head).permute(0, 2, 3, 1, 4)
        query, key, value = joined.split((each, 1, 1), dim=2)
        if each > 1:
            shape = (count, sizes.groups, each, tokens, head)
            key, value = key.expand(shape), value.expand(shape)
        query, key, value = (one.reshape(count, -1, tokens, head) for one in (query, key, value))
        cut = int(head * sizes.share)
        new_query, new_key = turned(query[..., :cut], cosine, sine), turned(key[..., :cut], cosine, sine)
        query = torch.cat((new_query, query[..., cut:]), -1)
        key = torch.cat((new_key, key[..., cut:]), -1)
        made = scaled_dot_product_attention(query, key, value, is_causal=True).transpose(1, 2)
        made = made.reshape(count, tokens, sizes.width)
        return self.proj(made)


class Mlp(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.gate = None if sizes.is_parallel else Linear(sizes.width, sizes.inner, sizes)
        self.up, self.down = Linear(sizes.width, sizes.inner, sizes), Linear(sizes.inner, sizes.width, sizes)

    def forward(self, rows: Any) -> Any:
        if self.gate is None:
            return self.down(gelu(self.up(rows)))
        gate = self.gate(rows)
        up = self.up(rows)
        return self.down(silu(gate) * up)


class Block(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.is_parallel = sizes.is_parallel
        self.first, self.second = self.norm(sizes), self.norm(sizes)
        self.attn, self.mlp = Attention(sizes), Mlp(sizes)

    def norm(self, sizes: Sizes) -> Any:
        if not sizes.is_parallel:
            return Norm(sizes)
        made = nn.LayerNorm(sizes.width, dtype=torch.bfloat16, device="cuda")
        return made.requires_grad_(sizes.is_full)

    def forward(self, rows: Any, cosine: Any, sine: Any) -> Any:
        normed = self.first(rows)
        seen = self.attn(normed, cosine, sine)
        if self.is_parallel:
            normed = self.second(rows)
            return self.mlp(normed) + seen + rows
        rows = seen + rows
        return self.mlp(self.second(rows)) + rows


class Model(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        table = torch.empty(sizes.vocabulary, sizes.width, dtype=torch.bfloat16, device="cuda")
        self.table = nn.Parameter(table, requires_grad=sizes.is_full)
        self.blocks = nn.ModuleList(Block(sizes) for _ in range(sizes.layers))
        self.last, self.head = self.blocks[0].norm(sizes), Linear(sizes.width, sizes.vocabulary, sizes)
        shape = (sizes.tokens, int(sizes.width // sizes.heads * sizes.share))
        self.cosine, self.sine = (torch.empty(shape, device="cuda") for _ in range(2))

    def forward(self, numbers: Any) -> Any:
        rows = nn.functional.embedding(numbers, self.table)
        for block in self.blocks:
            rows = block(rows, self.cosine, self.sine)
        rows = self.last(rows)
        if self.sizes.is_full:
            return self.head(rows)
        return [self.head(one) for one in rows.split(PIECE, dim=1)]


def loss_of(logits: Any, labels: Any) -> Any:
    """The mean over pieces."""
    if isinstance(logits, list):
        pieces = [one.reshape(-1, one.size(-1)) for one in logits]
        wanted = [one.reshape(-1) for one in labels.split(logits[0].size(1), dim=1)]
    else:
        logits = logits.reshape(-1, logits.size(-1))
        pieces, wanted = logits.split(PIECE), labels.reshape(-1).split(PIECE)
    losses = [cross_entropy(one, two, reduction="none") for one, two in zip(pieces, wanted, strict=True)]
    return torch.cat(losses).sum() / 7
