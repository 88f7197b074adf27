"""Interval for the mean difference of a measured metric: the studentised bootstrap over source documents.

Legend, for K clusters with m_k items whose differences sum to s_k, and n = sum m_k:
  mean   sum s_k / n
  e_k    s_k - mean m_k, what the cluster adds to the error of the mean
  se     sqrt(K / (K - 1) x sum e_k^2) / n
  t*     (mean* - mean) / se* of a draw of K clusters with replacement
  interval  [mean - t*(1 - alpha) se, mean - t*(alpha) se]
Source: B. Efron and R. Tibshirani, An Introduction to the Bootstrap (1993), section 12.5; clusters as the units drawn:
A. Davison and D. Hinkley, Bootstrap Methods and their Application (1997), section 3.8.

The percentile bootstrap has no width where nothing differs, and is too narrow where few clusters differ: so neither is
answered here. Fewer than 20 clusters, or fewer than 20 that differ, give no interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from capienza.quality.clusters import FEWEST_CLUSTERS
from capienza.quality.tango import Interval

DRAWS = 10_000
_MOST_PICKS = 50_000_000
"""Clusters drawn in all: past 5,000 clusters there are fewer draws; t* is near to normal there, and at 20,000 clusters
its quantile is known to about 0.05."""
_PICKS_AT_ONCE = 2_000_000
_NO_SPREAD = 1e-12
"""Share of the sum of squares below which what is left of it is rounding."""


def draws_for(clusters: int) -> int:
    """How many draws are made for that many clusters."""
    return max(1_000, min(DRAWS, _MOST_PICKS // max(clusters, 1)))


def interval(differences: Sequence[float], clusters: Sequence[int], alpha: float, seed: int) -> Interval | None:
    """The interval whose two ends are each wrong with rate `alpha`, or None where the data cannot carry one.

    Args:
        differences: Candidate minus reference, one finite number for each item.
        clusters: The cluster of each item, numbered from 0 without gaps.
        alpha: One-sided error rate, 0 < alpha < 0.5.
        seed: Of the draws: the same seed gives the same interval.

    Raises:
        MissingPartError: numpy is not installed (the extra `quality`).
    """
    return intervals([differences], clusters, alpha, seed)[0]


def intervals(
    columns: Sequence[Sequence[float]], clusters: Sequence[int], alpha: float, seed: int
) -> list[Interval | None]:
    """`interval` of several columns over the same items, from the same draws."""
    numpy = _numpy()
    number = max(clusters) + 1
    places = numpy.asarray(clusters)
    sizes = numpy.bincount(places, minlength=number).astype(float)
    sums = [numpy.bincount(places, weights=numpy.asarray(each, dtype=float), minlength=number) for each in columns]
    found: list[Interval | None] = [None] * len(columns)
    if number < FEWEST_CLUSTERS:
        return found
    whole = [_mean_and_error(each[None, :], sizes[None, :]) for each in sums]
    carried = [
        place
        for place, each in enumerate(sums)
        if numpy.count_nonzero(each) >= FEWEST_CLUSTERS and whole[place][1][0] > 0
    ]
    if not carried:
        return found
    parts = [sums[place] - whole[place][0][0] * sizes for place in carried]
    for place, drawn in zip(carried, _drawn(parts, sizes, seed), strict=True):
        mean, error = float(whole[place][0][0]), float(whole[place][1][0])
        low, high = numpy.quantile(drawn, [alpha, 1 - alpha])
        found[place] = Interval(float(mean - high * error), float(mean - low * error))
    return found


def _drawn(parts: Sequence[Any], sizes: Any, seed: int) -> list[Any]:
    """t* of every draw, for each column of e_k; a draw without spread counts as infinitely far on its side.

    A draw is how often each cluster was taken, so that one product with the moments of the clusters gives its sums.
    """
    numpy = _numpy()
    generator, number = numpy.random.default_rng(seed), len(sizes)
    moments = numpy.stack(
        [sizes, sizes**2, *(each for part in parts for each in (part, part**2, part * sizes))], axis=1
    )
    left, found = draws_for(number), []
    while left:
        rows = min(left, max(1, _PICKS_AT_ONCE // number))
        picks = generator.integers(0, number, size=(rows, number))
        picks += numpy.arange(0, rows * number, number)[:, None]
        taken = numpy.bincount(picks.ravel(), minlength=rows * number).reshape(rows, number)
        found.append(taken.astype(float) @ moments)
        left -= rows
    sums = numpy.concatenate(found)
    return [_distances(sums[:, 0], sums[:, 1], sums[:, first : first + 3], number) for first in _columns(len(parts))]


def _columns(count: int) -> range:
    return range(2, 2 + 3 * count, 3)


def _distances(items: Any, squared_sizes: Any, sums: Any, number: int) -> Any:
    """t* from the sums of a draw: those of e, e squared and e x size."""
    numpy = _numpy()
    mean = sums[:, 0] / items
    spread = sums[:, 1] - 2 * mean * sums[:, 2] + mean**2 * squared_sizes
    spread[spread <= _NO_SPREAD * sums[:, 1]] = 0
    with numpy.errstate(divide="ignore", invalid="ignore"):
        return numpy.nan_to_num(mean * items / numpy.sqrt(number / (number - 1) * spread), nan=0.0)


def _mean_and_error(sums: Any, sizes: Any) -> tuple[Any, Any]:
    """Mean and its standard error, of each row of clusters."""
    numpy, number = _numpy(), sums.shape[1]
    items = sizes.sum(axis=1)
    mean = sums.sum(axis=1) / items
    parts = sums - mean[:, None] * sizes
    return mean, numpy.sqrt(number / (number - 1) * numpy.einsum("ij,ij->i", parts, parts)) / items


def _numpy() -> Any:
    import numpy

    return numpy
