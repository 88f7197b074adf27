"""Errors summarised: for each quantity, or for each quantity and engine, family or format.

Legend: e relative error of one case, (expected - measured) / measured. median, p95 and max are of |e|, bias the
mean of e; coverage the share of measured figures inside [floor, ceiling], `coverage_elsewhere` the same with ceilings
from other publishers' cases alone (trainings), width the median of (ceiling - expected) / expected.
Percentiles interpolate linearly between cases.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from capienza.validate.scored import Scored

By = Literal["engine", "arch", "format", "method", "family"]
FIELDS: dict[By, str] = {
    "engine": "engine", "arch": "arch", "format": "weight_format", "method": "method", "family": "family"
}  # fmt: skip
OUT_OF_MEMORY = "oom"


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """The scored cases of one group; figures are None where no case has one."""

    quantity: str
    by: dict[str, str]
    n: int
    skipped: int
    flagged: int
    median: float | None = None
    p95: float | None = None
    max: float | None = None
    bias: float | None = None
    coverage: float | None = None
    coverage_elsewhere: float | None = None
    width: float | None = None
    words: dict[str, int] = {}


def groups(rows: Iterable[Scored], by: Sequence[By] = ()) -> tuple[Group, ...]:
    """One group for each quantity and value of `by`, in the order of their names."""
    found: dict[tuple[str, ...], list[Scored]] = {}
    for row in rows:
        found.setdefault((row.name, *(str(getattr(row, FIELDS[field])) for field in by)), []).append(row)
    return tuple(_group(key[0], dict(zip(by, key[1:], strict=True)), members) for key, members in sorted(found.items()))


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of the sorted `values` lie, interpolated."""
    ordered = sorted(values)
    position = share * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


def _group(quantity: str, by: dict[str, str], members: list[Scored]) -> Group:
    scored = [row for row in members if row.status == "scored"]
    errors = [row.error for row in scored if row.error is not None]
    sizes = [abs(error) for error in errors]
    covered = [row.is_covered for row in scored if row.is_covered is not None]
    elsewhere = [row.is_covered_elsewhere for row in scored if row.is_covered_elsewhere is not None]
    widths = [(row.ceiling - row.expected) / row.expected for row in scored if row.ceiling is not None and row.expected]
    words: dict[str, int] = {}
    for row in scored:
        if row.word is not None:
            words[row.word] = words.get(row.word, 0) + 1
    return Group(
        quantity=quantity,
        by=by,
        n=len(scored),
        skipped=sum(row.status == "skipped" for row in members),
        flagged=sum(row.status == "flagged" for row in members),
        median=percentile(sizes, 0.5) if sizes else None,
        p95=percentile(sizes, 0.95) if sizes else None,
        max=max(sizes) if sizes else None,
        bias=sum(errors) / len(errors) if errors else None,
        coverage=sum(covered) / len(covered) if covered else None,
        coverage_elsewhere=sum(elsewhere) / len(elsewhere) if elsewhere else None,
        width=percentile(widths, 0.5) if widths else None,
        words=words,
    )
