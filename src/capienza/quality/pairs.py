"""The two arms item by item: what counts as wrong, what is left out, and how much of each.

A missing, truncated or unparsable answer of the candidate counts as the worst there is; one of the reference leaves the
item out, and is counted. No item leaves for any other reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from capienza.quality.answers import Answers
from capienza.quality.corpus import Corpus
from capienza.quality.metrics.figure import figure_of
from capienza.quality.plan import ALARMS, PlannedMetric

NO_WORST = ("logprob", "kl", "same_top")
"""Metrics without a worst value: a missing figure of the candidate leaves the result open."""


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """How many answers of one arm were missing, truncated, or held nothing that could be judged."""

    missing: int = 0
    truncated: int = 0
    unparsable: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.missing + self.truncated + self.unparsable


class Pairs(NamedTuple):
    """Figures of the items that count, with their clusters numbered from 0, and what did not go as it should.

    `open_items`: items of which the candidate has no figure and the metric no worst one.
    """

    reference: list[float]
    candidate: list[float]
    clusters: list[int]
    of_reference: Counts
    of_candidate: Counts
    open_items: int


class Figures(NamedTuple):
    """The figure of each item of the corpus by one metric, None where there is none, and which items are why so.

    `cut` and `unparsable` hold the places of items in the corpus; those without a figure that stand in neither are
    missing.
    """

    values: list[float | None]
    cut: frozenset[int]
    unparsable: frozenset[int]

    def counts(self, places: Iterable[int]) -> Counts:
        """Why there is no figure, at these places."""
        none = [place for place in places if self.values[place] is None]
        cut, unparsable = sum(place in self.cut for place in none), sum(place in self.unparsable for place in none)
        return Counts(missing=len(none) - cut - unparsable, truncated=cut, unparsable=unparsable)


def figures(metric: PlannedMetric, corpus: Corpus, answers: Answers) -> Figures:
    """The figure of every item by one metric: the log's own where it has one of that name, else by the plan's rule."""
    figure, given = figure_of(metric), answers.given.get(metric.name)
    values: list[float | None] = []
    cut, unparsable = [], []
    for place, item in enumerate(corpus.items):
        answer, found = answers.by_item.get(item.id), None
        if answer is not None and answer.output is not None:
            if answer.is_truncated:
                cut.append(place)
            else:
                found = figure(item, answer) if given is None else given.get(item.id)
                if found is None:
                    unparsable.append(place)
        values.append(found)
    return Figures(values, frozenset(cut), frozenset(unparsable))


def paired(metric: PlannedMetric, corpus: Corpus, reference: Figures, candidate: Figures) -> Pairs:
    """The two figures of every item whose reference answer can be judged."""
    is_relative = metric.kind in ALARMS
    has_worst = metric.kind not in NO_WORST
    numbers: dict[str, int] = {}
    judged = [place for place, value in enumerate(reference.values) if is_relative or value is not None]
    counted = [place for place in judged if has_worst or candidate.values[place] is not None]
    return Pairs(
        reference=[0.0 if is_relative else reference.values[place] or 0.0 for place in counted],
        candidate=[candidate.values[place] or 0.0 for place in counted],
        clusters=[numbers.setdefault(corpus.items[place].cluster, len(numbers)) for place in counted],
        of_reference=Counts() if is_relative else reference.counts(range(len(reference.values))),
        of_candidate=candidate.counts(judged),
        open_items=len(judged) - len(counted),
    )
