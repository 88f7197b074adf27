"""How long the rows of successive microbatches are, and a walk of one length taken to another.

Rows that are not packed differ in length, and every new longest microbatch finds the allocator's segments a little too
small: it takes new ones beside them. `batch_lengths` gives a run's lengths: of all data with a known mean, the
distribution that assumes least (exponential), without the rows that are longer than allowed, or with those cut.

The lengths come in the order of van der Corput's sequence, which is even however soon it is broken off: the result does
not depend on chance. A real order is drawn at random, and what is kept differs from run to run.

Legend: a walk is the allocator's events of one update's passes; L tokens of a row, T those that are allowed.
Every block of a pass is a polynomial of degree 2 in L (attention that makes all scores: L², a mask too), but for what
a kernel pads to whole tiles, which is taken as without the padding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from capienza.allocator.events import ALLOC, Event
from capienza.predict.training.tape import GRANULE_BYTES
from capienza.recipe.recipe import Recipe

MICROBATCHES = 64
"""Of a run that are walked: what is kept grows with the number's logarithm."""
KNOTS = (4, 2, 1)
"""Parts of T at which a polynomial is read."""


def batch_lengths(recipe: Recipe) -> list[int]:
    """Tokens of a row in each microbatch, padded to the longest of it. One length where rows do not differ."""
    lengths, most = recipe.lengths, recipe.tokens
    if lengths is None:
        return [most]
    made = []
    for place in range(1, MICROBATCHES + 1):
        # The longest of several rows lies below x with the probability of one row, to the power of their number.
        share: float = _even(place) ** (1 / recipe.microbatch)
        within = -math.expm1(-most / lengths.mean_tokens)
        if lengths.drops_longer:
            share *= within
        long = -lengths.mean_tokens * math.log1p(-share)
        made.append(max(1, min(most, round(long))))
    return made


def _even(place: int) -> float:
    """Van der Corput's sequence: the place's binary digits behind the point, last first."""
    found, weight = 0.0, 0.5
    while place:
        found += weight * (place & 1)
        place >>= 1
        weight /= 2
    return found


def knots(tokens: int) -> list[int]:
    """Lengths to walk, from which all others follow."""
    return [max(1, tokens // part) for part in KNOTS]


def stretched(walks: Sequence[Sequence[Event]], at: Sequence[int]) -> Stretched | None:
    """The polynomial through three walks; None where they are not the same operations."""
    first = [(code, block) for code, block, _, _ in walks[0]]
    if len(set(at)) < len(at) or any([(code, block) for code, block, _, _ in one] != first for one in walks[1:]):
        return None
    sizes = zip(*([size for _, _, size, _ in one] for one in walks), strict=True)
    return Stretched(first, [_through(at, one) for one in sizes])


class Stretched:
    """Events whose sizes depend on the length."""

    def __init__(self, codes: list[tuple[int, int]], terms: list[tuple[float, float, float]]) -> None:
        self.codes, self.terms = codes, terms

    def of(self, tokens: int) -> Iterator[Event]:
        """The events for rows of so many tokens; sizes are whole blocks."""
        for (code, block), (fixed, linear, square) in zip(self.codes, self.terms, strict=True):
            if code != ALLOC:
                yield code, block, 0, 0
                continue
            size = fixed + tokens * (linear + tokens * square)
            yield code, block, max(1, round(size / GRANULE_BYTES)) * GRANULE_BYTES, 0


def _through(at: Sequence[int], sizes: Sequence[int]) -> tuple[float, float, float]:
    """The parabola through three points, by divided differences."""
    (x0, x1, x2), (y0, y1, y2) = at, sizes
    slope = (y1 - y0) / (x1 - x0)
    square = ((y2 - y1) / (x2 - x1) - slope) / (x2 - x0)
    linear = slope - square * (x0 + x1)
    return y0 - linear * x0 - square * x0**2, linear, square
