"""What the fields of `quality` must not say together."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from capienza.card.quality_fields import KINDS
from capienza.errors import Message, shortened, template

ONLY_WITH = {
    "ignore": ("exact_match",), "tolerance": ("numeric",), "relative_tolerance": ("numeric",), "pattern": ("regex",),
}  # fmt: skip
NOT_OF_KIND = template(
    "card.not-of-this-metric", "{key} belongs to {accepted}; this metric is {found}", "Delete it, or correct the kind."
)
NO_PATTERN = template("card.no-pattern", "a regex metric needs a pattern", 'Add one such as pattern: "^(yes|no)$".')
BAD_PATTERN = template(
    "card.bad-pattern", "this is no regular expression: {problem}", "Correct it; Python's syntax is read."
)
LENGTH_ORDER = template(
    "card.length-order", "the least ratio, {least}, is not below the largest, {most}", "Exchange them, or correct one."
)


def quality_problems(values: dict[str, Any], named: Iterator[str]) -> Iterator[tuple[str, Message]]:
    """Each contradiction with the path of the key it stands at.

    Args:
        values: What was read, by path.
        named: The paths of the names of the metrics.
    """
    for path in named:
        yield from _of_metric(values, path.removesuffix(".name"))
    least, most = values.get("quality.length.least"), values.get("quality.length.most")
    if least is not None and most is not None and least >= most:
        yield "quality.length.least", LENGTH_ORDER(least=str(least), most=str(most))


def kind_of(name: str, kind: str | None) -> str | None:
    """The kind of a metric; None where neither its kind nor its name says one."""
    return kind or (name if name in KINDS else None)


def _of_metric(values: dict[str, Any], path: str) -> Iterator[tuple[str, Message]]:
    kind = kind_of(values[f"{path}.name"], values.get(f"{path}.kind"))
    if kind is None:
        return
    for key, accepted in ONLY_WITH.items():
        if f"{path}.{key}" in values and kind not in accepted:
            yield f"{path}.{key}", NOT_OF_KIND(key=key, accepted=accepted, found=kind)
    pattern = values.get(f"{path}.pattern")
    if kind == "regex" and pattern is None:
        yield f"{path}.name", NO_PATTERN()
    if pattern is not None:
        try:
            re.compile(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            yield f"{path}.pattern", BAD_PATTERN(problem=shortened(str(error), 80))
