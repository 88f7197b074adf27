"""How far measured figures lie above expected ones: the ceilings of everything that is not exact.

Legend: r = measured / expected of one calibration case; n cases. The ceiling factor that 95 % of new cases stay below
is the k-th smallest r, k = ceil(0.95 (n + 1)) (split conformal prediction). With n < 19 there is no such case: the
largest r is taken, and 2 / (n + 1) of their spread on top, so that few cases give a wide range. Cases may weigh less
than one: the factor is then the r that k / n of the weight lies below, n what the cases count for. Of trainings r is
that of what lies above the weights (`training.groups`).
`validate` leaves out the cases of the model that it predicts (`without`). No factor is below 1.
The data are written by `capienza calibrate` from measured cases; nothing here is typed in.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

SHARE = 0.95
ROUNDING = 1e-9
"""What sums of weights may be off by."""
ENOUGH_CASES = 19
"""Below this no case is the one that 95 % stay below."""
SHIPPED = Path(__file__).parent / "data" / "calibration.json"
NO_CASES_FACTOR = 2.0
"""Where no case was ever measured: twice the expected figure; the answer names such ceilings."""


class Ratio(msgspec.Struct, frozen=True, array_like=True, order=True):
    """One calibration case: the model's name, and measured / expected."""

    model: str
    value: float


class Kind(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The cases of one engine and quantity; of trainings `family` is whose runs they are, `kernels` whose code ran."""

    engine: str
    quantity: str
    family: str = ""
    kernels: str = ""
    ratios: tuple[Ratio, ...]


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """All kinds. `sources` are the files that the cases came from, with their digests; `date` is when, in UTC."""

    schema: str = "capienza.calibration/1"
    date: str = ""
    sources: dict[str, str] = {}
    kinds: tuple[Kind, ...] = ()

    def factor(self, engine: str, quantity: str, without: str = "") -> Factor:
        """The ceiling factor of a quantity on an engine; another engine's cases stand in where there are none."""
        own = [kind for kind in self.kinds if kind.quantity == quantity and kind.engine == engine]
        others = [kind for kind in self.kinds if kind.quantity == quantity]
        for kinds in (own, others):
            values = [ratio.value for kind in kinds for ratio in kind.ratios if ratio.model != without]
            if values:
                return Factor(conformal(values), len(values))
        return Factor(NO_CASES_FACTOR, 0)


class Factor(msgspec.Struct, frozen=True):
    """Ceiling over expected, and how many cases stand behind it."""

    value: float
    cases: int


def conformal(values: Iterable[float], weights: Sequence[float] | None = None, count: float | None = None) -> float:
    """The factor that 95 % of new cases stay below; never under 1. Without `weights` each case weighs 1.

    `count`: what the cases count for, where weights say only how they share it; else the sum of the weights.
    """
    taken = list(values)
    ordered = sorted(zip(taken, weights or [1.0] * len(taken), strict=True))
    total = sum(weight for _, weight in ordered)
    count = total if count is None else count
    needed = SHARE * (count + 1) / count * total - ROUNDING
    below = 0.0
    for value, weight in ordered:
        below += weight
        if below >= needed:
            return max(1.0, value)
    largest, smallest = max(1.0, ordered[-1][0]), min(1.0, ordered[0][0])
    return largest + 2 * (largest - smallest) / (count + 1)


@functools.cache
def shipped() -> Calibration:
    """The calibration that comes with the package."""
    return msgspec.json.decode(SHIPPED.read_bytes(), type=Calibration)
