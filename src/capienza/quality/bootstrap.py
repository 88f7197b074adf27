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
_MOST_PICKS = 200_000_000
"""Clusters drawn in all: past 20,000 clusters there are fewer draws, and the answer says how many."""
_PICKS_AT_ONCE = 2_000_000


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
    numpy = _numpy()
    number = max(clusters) + 1
    if number < FEWEST_CLUSTERS:
        return None
    places = numpy.asarray(clusters)
    sums = numpy.bincount(places, weights=numpy.asarray(differences, dtype=float), minlength=number)
    sizes = numpy.bincount(places, minlength=number).astype(float)
    if numpy.count_nonzero(sums) < FEWEST_CLUSTERS:
        return None
    mean, error = _mean_and_error(sums[None, :], sizes[None, :])
    if not error[0] > 0:
        return None
    drawn = _drawn(sums, sizes, float(mean[0]), seed)
    low, high = numpy.quantile(drawn, [alpha, 1 - alpha])
    return Interval(float(mean[0] - high * error[0]), float(mean[0] - low * error[0]))


def _drawn(sums: Any, sizes: Any, mean: float, seed: int) -> Any:
    """t* of every draw; a draw without spread counts as infinitely far on its side."""
    numpy = _numpy()
    generator, number = numpy.random.default_rng(seed), len(sums)
    left, found = draws_for(number), []
    while left:
        rows = min(left, max(1, _PICKS_AT_ONCE // number))
        picks = generator.integers(0, number, size=(rows, number), dtype=numpy.int32)
        means, errors = _mean_and_error(sums[picks], sizes[picks])
        with numpy.errstate(divide="ignore", invalid="ignore"):
            found.append(numpy.nan_to_num((means - mean) / errors, nan=0.0))
        left -= rows
    return numpy.concatenate(found)


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
