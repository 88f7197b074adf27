"""One figure for one answer by one metric."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from capienza.errors import InputError, shortened, template
from capienza.quality.answers import Answer
from capienza.quality.corpus import Item
from capienza.quality.limited import within
from capienza.quality.metrics import overlap, structure, words
from capienza.quality.plan import PlannedMetric

Figure: TypeAlias = "Callable[[Item, Answer], float | None]"
MOST_SECONDS = 20.0
"""That one answer may take; a pattern with repeats inside repeats takes for ever on some."""
_SLOW = ("regex", "json_schema", "chrf", "rouge_l")
NOT_ENDING = template(
    "quality.metric-not-ending",
    "{metric} is not done with item {id} after {seconds} seconds",
    "write its pattern or schema without a repeat inside a repeat, and freeze a new plan",
)
MOST_MATCHED = 100_000
"""Characters of an output that a pattern is looked for in."""


def figure_of(metric: PlannedMetric) -> Figure:
    """The function that gives an answer's figure: 0 or 1, a share, or a log-probability; None: nothing to judge."""
    ignore, tolerance, relative = frozenset(metric.ignore), float(metric.tolerance), float(metric.relative_tolerance)
    pattern = re.compile(metric.pattern or "")
    by_kind: dict[str, Callable[[Item, str], float | bool | None]] = {
        "exact_match": lambda item, output: words.exact_match(item, output, ignore),
        "choice": words.choice,
        "numeric": lambda item, output: words.numeric(item, output, tolerance, relative),
        "regex": lambda _, output: words.matches(output[:MOST_MATCHED], pattern),
        "json_schema": lambda item, output: structure.is_valid(item.schema or {}, output),
        "chrf": overlap.chrf,
        "rouge_l": overlap.rouge_l,
    }
    judge = by_kind.get(metric.kind)
    if judge is None:
        return lambda _, answer: getattr(answer, metric.kind, None)

    def figure(item: Item, answer: Answer) -> float | None:
        found = judge(item, answer.output or "")
        return None if found is None else float(found)

    return _limited(metric, figure) if metric.kind in _SLOW else figure


def _limited(metric: PlannedMetric, figure: Figure) -> Figure:
    def limited(item: Item, answer: Answer) -> float | None:
        try:
            with within(MOST_SECONDS):
                return figure(item, answer)
        except TimeoutError as error:
            identity, seconds = shortened(item.id, 60), f"{MOST_SECONDS:g}"
            raise InputError(NOT_ENDING(metric=metric.name, id=identity, seconds=seconds)) from error

    return limited
