"""Small programs whose peak lies where autograd puts gradients together: what is done to a tensor, by name."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from truth.programs import Program

SIDE = 256


def _places(*shape: int) -> Tensor:
    return torch.zeros(*shape, dtype=torch.int64)


def _kept(rows: Tensor) -> Tensor:
    """A hook of the program holds a gradient, so nothing may be written into it."""
    kept: list[Tensor] = []
    used = rows * 1
    both = used + used.cos()
    both.register_hook(kept.append)
    return (both * 2).sum() + 0 * len(kept)


USES: dict[str, Callable[[Tensor], Tensor]] = {
    "twice": lambda rows: (rows * 2).sum() + (rows * 3).sum(),
    "four times": lambda rows: (rows.exp() + rows.sin() + rows.cos() + rows * 2).sum(),
    "in slices": lambda rows: rows[:, :128].exp().sum() + rows[:, 128:].exp().sum(),
    "past a branch": lambda rows: ((rows * 1) + (rows * 1).sin()).exp().sum(),
    "held by a hook": _kept,
    "gather": lambda rows: rows.gather(1, _places(SIDE, 1)).sum(),
    "along": lambda rows: rows.take_along_dim(_places(SIDE, 3), 1).sum(),
    "by places": lambda rows: rows[torch.arange(SIDE), _places(SIDE)].sum(),
    "by a mask": lambda rows: rows[torch.ones(SIDE, dtype=torch.bool)].sum(),
    "selected": lambda rows: rows.index_select(0, _places(9)).sum(),
    "the highest": lambda rows: rows.max(1)[0].sum(),
    "the first of a sort": lambda rows: rows.topk(4, 1)[0].sum(),
    "scattered": lambda rows: (rows * 1).scatter(1, _places(SIDE, 2), 0.5).sum(),
    "put": lambda rows: (rows * 1).index_put((_places(4),), torch.ones(SIDE)).sum(),
    "of log-probabilities": lambda rows: rows.log_softmax(-1).gather(1, _places(SIDE, 1)).sum(),
}


def used(name: str) -> Program:
    """A leaf of [256, 256] numbers, used like that, and its gradient."""

    def build() -> Tensor:
        return torch.zeros(1)

    def step(_state: object) -> None:
        USES[name](torch.ones(SIDE, SIDE, requires_grad=True)).backward()

    return build, step
