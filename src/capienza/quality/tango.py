"""Tango's score interval for the difference of two paired proportions.

Legend, for n items that the reference and the candidate both answered:
  gain   items that only the candidate has right
  loss   items that only the reference has right
  d      (gain - loss) / n, candidate minus reference
  D      a difference that is tested
  q(D)   the most likely share of losses when the true difference is D
  z(D)   (gain - loss - n D) / sqrt(n (2 q(D) + D (1 - D))), standard normal when D is true
The interval holds every D with |z(D)| <= z.
Source: T. Tango, Statistics in Medicine 17 (1998) 891-908, equations 4 and 9.

Wald's interval and the percentile bootstrap have no width where no item differs, and certify any margin; this one does
not: with no difference in n items its lower end is -z^2 / (n + z^2).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import NamedTuple

_STEPS = 200


class Interval(NamedTuple):
    """A two-sided interval for a difference, candidate minus reference."""

    lower: float
    upper: float


def quantile(alpha: float) -> float:
    """The standard normal's quantile for a one-sided error rate `alpha`, 0 < alpha < 0.5."""
    return NormalDist().inv_cdf(1 - alpha)


def score(count: float, gain: float, loss: float, difference: float) -> float:
    """z(D) for a tested difference D in [-1, 1]; infinite where the data cannot come from D.

    Counts may be fractions: items of one document are counted as fewer where they are not independent.
    """
    distance = gain - loss - count * difference
    spread = 2 * _share_of_losses(count, gain, loss, difference) + difference * (1 - difference)
    variance = count * spread
    if variance <= 0:
        return math.copysign(math.inf, distance) if distance else 0.0
    return distance / math.sqrt(variance)


def _share_of_losses(count: float, gain: float, loss: float, difference: float) -> float:
    """q(D): the larger root of 2n q^2 + B q - loss D (1 - D) = 0, kept where probabilities allow it."""
    linear = -gain - loss + (2 * count - gain + loss) * difference
    constant = -loss * difference * (1 - difference)
    root = math.sqrt(max(linear * linear - 8 * count * constant, 0.0))
    share = (root - linear) / (4 * count) if linear <= 0 else -2 * constant / (root + linear)
    return max(share, -difference, 0.0)


def interval(count: float, gain: float, loss: float, alpha: float) -> Interval:
    """The interval whose two ends are each wrong with rate `alpha`.

    Args:
        count: Items compared, more than 0.
        gain: Items that only the candidate has right.
        loss: Items that only the reference has right; gain + loss <= count.
        alpha: One-sided error rate, 0 < alpha < 0.5.
    """
    z = quantile(alpha)
    estimate = (gain - loss) / count
    lower = _crossing(lambda difference: score(count, gain, loss, difference) > z, -1.0, estimate)
    upper = _crossing(lambda difference: score(count, gain, loss, difference) >= -z, estimate, 1.0)
    return Interval(lower, upper)


def _crossing(is_before: Callable[[float], bool], low: float, high: float) -> float:
    """Where a condition that holds at first stops holding, as near as floating point tells."""
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if is_before(middle) else (low, middle)
    return (low + high) / 2
