"""Which of the selected are beaten in nothing: the Pareto set of cost, useful margin and documented end.

An offer is dominated by another one that is as good in every figure and better in one. A figure that is not known
cannot be compared: such an offer is neither in the set nor out of it.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

Figures = tuple[Any, ...]
"""Three figures, the smaller the better."""


def undominated(rows: Mapping[str, Figures]) -> frozenset[str]:
    """The names of the triples that no other one dominates; equal ones are all there, or none of them.

    In order of the first figure, each triple is compared with a staircase: of those before it, the ones that are
    best in the second or third, the second rising and the third falling.
    """
    best: list[str] = []
    seconds: list[Any] = []
    thirds: list[Any] = []
    for row, group in itertools.groupby(sorted(rows.items(), key=_figures), key=_figures):
        _, second, third = row
        place = bisect_right(seconds, second)
        if place and thirds[place - 1] <= third:
            continue
        best += (name for name, _ in group)
        end = start = place - 1 if place and seconds[place - 1] == second else place
        while end < len(thirds) and thirds[end] >= third:
            end += 1
        seconds[start:end] = [second]
        thirds[start:end] = [third]
    return frozenset(best)


def _figures(item: tuple[str, Figures]) -> Figures:
    return item[1]
