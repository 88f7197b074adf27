"""How many items a margin needs: the chance that Tango's interval clears it, counted out exactly.

Legend:
  n        items
  psi      share of items on which reference and candidate differ
  d        true difference, candidate minus reference; |d| <= psi
  margin   the most that may be lost; the gate is satisfied when the lower end lies above -margin
  power    probability of that: sum over the discordant items D ~ Binomial(n, psi) of the probability that the losses
           among them, Binomial(D, (psi - d) / (2 psi)), are few enough
First guess of n for d = 0: (z_alpha + z_power)^2 psi / margin^2, 10.5 psi / margin^2 at alpha 0.025 and power 0.9.
"""

from __future__ import annotations

import math
from statistics import NormalDist

from capienza.quality.tango import quantile, score

_TAIL = 1e-12
"""Probability that is left out at either end of a sum."""
MOST_ITEMS = 100_000_000
_MOST_COUNTED = 5_000
"""Discordant items up to which power is counted out; past them the first guess is as near, and far quicker."""
_GROWTH = 1.02


def clears(count: float, gain: float, loss: float, margin: float, alpha: float) -> bool:
    """Does the interval of these counts lie above -margin? The same as comparing its lower end, without finding it."""
    return score(count, gain, loss, -margin) > quantile(alpha)


def power(count: int, discordant_share: float, margin: float, alpha: float, difference: float = 0.0) -> float:
    """Probability that `count` items clear the margin at a true `difference`.

    Args:
        count: Items, at least 1.
        discordant_share: psi, in [0, 1].
        margin: In (0, 1].
        alpha: One-sided error rate.
        difference: d, with |d| <= psi.
    """
    if discordant_share == 0:
        return float(clears(count, 0, 0, margin, alpha))
    loss_share = (discordant_share - difference) / (2 * discordant_share)
    total, most_losses = 0.0, 0
    first, last = _span(count, discordant_share)
    most_losses = _most_losses(count, first, margin, alpha, start=0)
    for discordant in range(first, last + 1):
        most_losses = _most_losses(count, discordant, margin, alpha, start=most_losses)
        if most_losses >= 0:
            total += _at(discordant, count, discordant_share) * _up_to(most_losses, discordant, loss_share)
    return min(total, 1.0)


def needed(discordant_share: float, margin: float, alpha: float, target: float, difference: float = 0.0) -> int | None:
    """The fewest items with that power, to about two per cent; None where no number of items reaches it.

    None: the true difference is at or beyond the margin, or more than a hundred million items are needed.
    """
    distance = margin + difference
    if distance <= 0:
        return None
    z = quantile(alpha) + NormalDist().inv_cdf(target)
    count = max(1, math.ceil(z * z * max(discordant_share - difference * difference, 0.0) / (distance * distance)))
    if count * discordant_share > _MOST_COUNTED:
        return count if count <= MOST_ITEMS else None
    while power(count, discordant_share, margin, alpha, difference) < target:
        count = max(count + 1, math.ceil(count * _GROWTH))
        if count > MOST_ITEMS:
            return None
    return count


def _most_losses(count: int, discordant: int, margin: float, alpha: float, start: int) -> int:
    """The most losses among the discordant items that still clear the margin, -1 for none; looked for from `start`."""
    losses = min(max(start, -1), discordant)
    while losses >= 0 and not clears(count, discordant - losses, losses, margin, alpha):
        losses -= 1
    while losses < discordant and clears(count, discordant - losses - 1, losses + 1, margin, alpha):
        losses += 1
    return losses


def _span(count: int, share: float) -> tuple[int, int]:
    """The numbers of discordant items that are not out of the question."""
    if share == 1:
        return count, count
    half = 9 * math.sqrt(count * share * (1 - share)) + 30
    return max(0, math.floor(count * share - half)), min(count, math.ceil(count * share + half))


def _at(successes: int, trials: int, share: float) -> float:
    """Binomial probability of exactly so many successes."""
    if share in (0.0, 1.0):
        return float(successes == trials * share)
    ways = math.lgamma(trials + 1) - math.lgamma(successes + 1) - math.lgamma(trials - successes + 1)
    return math.exp(ways + successes * math.log(share) + (trials - successes) * math.log1p(-share))


def _up_to(most: int, trials: int, share: float) -> float:
    """Binomial probability of at most so many successes."""
    total = 0.0
    for successes in range(most, -1, -1):
        term = _at(successes, trials, share)
        total += term
        if term < _TAIL and successes < trials * share:
            break
    return min(total, 1.0)
