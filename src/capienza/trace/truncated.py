"""`torch.nn.init.trunc_normal_` asks after each draw whether a number lies outside the bounds, and draws again.

Nobody knows the numbers, but their distribution is known: of `count` numbers of which one in `1 / share` is refused,
a k-th draw finds none to refuse with the chance exp(-count * share^k). From the second draw on each takes the same
memory, so it matters whether there are none, one, or more. Where that is chance, the likeliest is taken and told.
Source: torch/nn/init.py (`_no_grad_trunc_normal_`: it refuses what lies outside, or where little of the distribution
lies inside, draws evenly between the bounds and refuses by the density). Older versions draw once and ask nothing.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from capienza.errors import template
from capienza.trace.tracker import Tracker

DRAWN_AGAIN = template(
    "trace.drawn-again",
    "trunc_normal_: whether random numbers outside the bounds are drawn again never, once or more often is chance; the "
    "likeliest is taken, which moves the phase in which weights are made by twice the largest of them at most",
)
CERTAIN = 1e-3
"""What is less likely does not happen."""
LITTLE_INSIDE = 0.3
"""`_no_grad_trunc_normal_` draws evenly where no more than this of the distribution lies inside."""


def changes(tracker: Tracker) -> list[tuple[Any, str, Any]]:
    """What answers its questions."""
    real = getattr(torch.nn.init, "_no_grad_trunc_normal_", None)
    if real is None:
        return []

    def truncated(
        tensor: torch.Tensor, mean: float, std: float, low: float, high: float, *more: Any, **named: Any
    ) -> torch.Tensor:
        draws, chance = draws_again(tensor.numel(), refused(mean, std, low, high))
        asked_before, tracker.guesses.likely = tracker.guesses.likely, [True] * draws + [False]
        try:
            out: torch.Tensor = real(tensor, mean, std, low, high, *more, **named)
        finally:
            was_asked, tracker.guesses.likely = not tracker.guesses.likely, asked_before
        if was_asked and not chance <= CERTAIN:
            tracker.assumed[DRAWN_AGAIN.code] = DRAWN_AGAIN()
        return out

    return [(torch.nn.init, "_no_grad_trunc_normal_", truncated)]


def refused(mean: float, std: float, low: float, high: float) -> float:
    """The share of numbers that one draw gives to be refused: 0 to 1. NaN where it cannot be told."""
    try:
        below, above = ((mean - low) / std, (high - mean) / std)
        outside = sum(math.erfc(one / math.sqrt(2)) / 2 for one in (below, above))
        if 1 - outside > LITTLE_INSIDE:
            return outside
        highest = max(low, min(mean, high))
        area = std * math.sqrt(2 * math.pi) * (1 - outside) * math.exp(((highest - mean) / std) ** 2 / 2)
        return 1 - area / (high - low)
    except (ZeroDivisionError, OverflowError):
        return math.nan


def draws_again(count: int, share: float) -> tuple[int, float]:
    """How often `count` numbers are likeliest drawn again: 0, 1, or 2 for more often. And the chance of another one."""
    once, more = (-math.expm1(-count * share**power) for power in (1, 2))
    chances = 1 - once, once - more, more
    likeliest = max(range(3), key=chances.__getitem__)
    return likeliest, sum(one for draws, one in enumerate(chances) if draws != likeliest)
