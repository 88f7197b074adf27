"""The program of a Liger row with PyTorch's own operators: head and cross entropy, or cross entropy alone.

Source: linkedin/Liger-Kernel, benchmark/scripts/benchmark_cross_entropy.py and benchmark_fused_linear_cross_entropy.py:
forward and backward ten times over one input, whose gradient stays. The script of that release makes the head twice,
one for each of the two losses that it compares.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

REPEATS = 3


def program(row: dict[str, Any]) -> tuple[Any, Any, int]:
    """`build`, `step`, and how often."""
    return partial(build, row), step, REPEATS


def build(row: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor, torch.nn.Module, torch.nn.Module | None]:
    """Input, targets, the module, and the one that waits for the other loss."""
    tokens, vocab = row["seq_len"] * row["microbatch"], row["arch"]["vocab"]
    target = torch.randint(vocab, (tokens, 1), device="cuda").squeeze(1)
    if row["id"].startswith("liger-ce-"):
        return torch.randn(tokens, vocab, requires_grad=True, device="cuda"), target, torch.nn.Identity(), None
    hidden = row["arch"]["hidden"]
    inputs = torch.randn(tokens, hidden, requires_grad=True, dtype=torch.bfloat16, device="cuda")
    heads = [torch.nn.Linear(hidden, vocab, bias=False, dtype=torch.bfloat16).to("cuda") for _ in range(2)]
    return inputs, target, heads[0], heads[1]


def step(made: tuple[torch.Tensor, torch.Tensor, torch.nn.Module, torch.nn.Module | None]) -> None:
    """Forward and backward."""
    inputs, target, head, _ = made
    loss = torch.nn.functional.cross_entropy(head(inputs), target)
    loss.backward()
