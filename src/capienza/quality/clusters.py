"""Items of one source document are not independent: how many independent items they are worth.

Legend, for n items in K clusters of sizes m_k, with item differences d_i (for right and wrong: 1, 0, -1):
  V_items     sum of (d_i - mean)^2 / n^2, the variance of the mean if items were independent
  V_clusters  K / (K - 1) x sum over clusters of (sum in the cluster of (d_i - mean))^2 / n^2
  deff        design effect V_clusters / V_items, never below 1; n / deff items are worth as much
  D           clusters that hold an item that differs; deff is known as well as a variance from D draws, so its upper
              limit of 95 % is taken: deff D / (the 5 % quantile of chi-squared with D degrees of freedom)
  Kish        sum of m_k^2 / n, the design effect of clusters whose items all share one fate
Source of deff and of its largest value: L. Kish, Survey Sampling (1965), sections 5.4 and 8.2. Quantile: E. Wilson and
M. Hilferty (1931).

Where fewer than 20 clusters hold an item that differs, deff cannot be estimated, and the largest is taken. With the
estimate itself in place of its upper limit, a loss equal to the margin is certified up to 17 times in 100 where items
share half of their fate; with the limit about as often as stated (`bench/quality_clusters.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

FEWEST_CLUSTERS = 20
"""Below this number of clusters neither a design effect nor a bootstrap is trusted."""

_Z_95 = NormalDist().inv_cdf(0.95)


def design_effect(differences: Sequence[float], clusters: Sequence[int]) -> float:
    """The design effect, 1 where every item is a cluster of its own.

    Args:
        differences: Candidate minus reference, one for each item; not empty.
        clusters: The cluster of each item, numbered from 0 without gaps.
    """
    count, number = len(differences), max(clusters) + 1
    if number == count:
        return 1.0
    mean = sum(differences) / count
    sizes, sums, differing = [0] * number, [0.0] * number, set()
    for difference, cluster in zip(differences, clusters, strict=True):
        sizes[cluster] += 1
        sums[cluster] += difference - mean
        if difference:
            differing.add(cluster)
    largest = sum(size * size for size in sizes) / count
    if len(differing) < FEWEST_CLUSTERS:
        return largest
    of_items = sum((difference - mean) ** 2 for difference in differences)
    of_clusters = number / (number - 1) * sum(total * total for total in sums)
    if not of_items:
        return largest
    return min(max(of_clusters / of_items, 1.0) / _least_share(len(differing)), max(largest, 1.0))


def _least_share(draws: int) -> float:
    """How far below its true value, in 95 of 100 cases, a variance from so many draws still may be found."""
    part = 2 / (9 * draws)
    return (1 - part - _Z_95 * math.sqrt(part)) ** 3
