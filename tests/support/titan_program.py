"""A Llama as torchtitan writes it, sharded with `fully_shard`: small, to be traced."""

from __future__ import annotations

import os
from collections import defaultdict
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as functional
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

LAYERS, HIDDEN, HEADS, KEY_HEADS, HEAD, INNER, WORDS = 3, 512, 8, 2, 64, 1536, 8000
ROWS, TOKENS = 2, 512
SAVED = {torch.ops.aten.mm.default, torch.ops.aten._scaled_dot_product_flash_attention.default}


class Norm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(HIDDEN))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-5)).type_as(x)
        return made * self.weight


def turned(x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns[:, None, :]).flatten(3).type_as(x)


def repeated(x: torch.Tensor) -> torch.Tensor:
    rows, tokens, heads, size = x.shape
    times = HEADS // KEY_HEADS
    return x[:, :, :, None, :].expand(rows, tokens, heads, times, size).reshape(rows, tokens, heads * times, size)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        sizes = {
            "wq": (HIDDEN, HEADS * HEAD), "wk": (HIDDEN, KEY_HEADS * HEAD), "wv": (HIDDEN, KEY_HEADS * HEAD),
            "wo": (HEADS * HEAD, HIDDEN), "w1": (HIDDEN, INNER), "w2": (INNER, HIDDEN), "w3": (HIDDEN, INNER),
        }  # fmt: skip
        for name, size in sizes.items():
            setattr(self, name, nn.Linear(*size, bias=False))
        self.attention_norm, self.ffn_norm = Norm(), Norm()

    def attention(self, x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
        rows, tokens, _ = x.shape
        q, k, v = (one(x).view(rows, tokens, -1, HEAD) for one in (self.wq, self.wk, self.wv))
        q, k = turned(q, turns), turned(k, turns)
        k, v = repeated(k), repeated(v)
        q, k, v = (one.transpose(1, 2) for one in (q, k, v))
        made = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(made.transpose(1, 2).contiguous().view(rows, tokens, -1))

    def inner(self, x: torch.Tensor) -> torch.Tensor:
        return self.w2(functional.silu(self.w1(x)) * self.w3(x))

    def forward(self, x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.attention_norm(x), turns)
        return x + self.inner(self.ffn_norm(x))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, HIDDEN)
        self.layers = nn.ModuleDict({str(place): Block() for place in range(LAYERS)})
        self.norm, self.output = Norm(), nn.Linear(HIDDEN, WORDS, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        turns = torch.ones(TOKENS, HEAD // 2, dtype=torch.complex64, device=ids.device)
        x = self.words(ids)
        for layer in self.layers.values():
            x = layer(x, turns)
        return self.output(self.norm(x))


def _contexts() -> Any:
    counts: dict[str, int] = defaultdict(int)

    def policy(context: Any, function: Any, *args: Any, **named: Any) -> CheckpointPolicy:
        mode = "again" if context.is_recompute else "first"
        is_product = function == torch.ops.aten.mm.default
        counts[mode] += is_product
        is_saved = function in SAVED and not (is_product and counts[mode] % 2 == 0)
        return CheckpointPolicy.MUST_SAVE if is_saved else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


def build(checkpointing: str, reshards: str) -> Any:
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    with torch.device("meta"):
        model = Net()
    for name in list(model.layers):
        if checkpointing == "selective":
            model.layers[name] = checkpoint_wrapper(model.layers[name], context_fn=_contexts, preserve_rng_state=False)
        elif checkpointing == "full":
            model.layers[name] = checkpoint_wrapper(model.layers[name], preserve_rng_state=False)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for place, layer in enumerate(model.layers.values()):
        stays = reshards == "none" or (reshards == "all_but_last" and place == LAYERS - 1)
        fully_shard(layer, mp_policy=policy, reshard_after_forward=not stays)
    fully_shard(model, mp_policy=policy, reshard_after_forward=False)
    model.to_empty(device="cuda")
    return model, torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)


def step(state: Any) -> None:
    model, optimizer = state
    ids, labels = (torch.ones(ROWS, TOKENS, dtype=torch.int64, device="cuda") for _ in range(2))
    optimizer.zero_grad()
    logits = model(ids)
    loss = functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(0, 1))
    del logits
    loss.backward()
    optimizer.step()
