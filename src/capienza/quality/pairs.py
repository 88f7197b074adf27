"""The two arms item by item: what counts as wrong, what is left out, and how much of each.

A missing, truncated or unparsable answer of the candidate counts as the worst there is; one of the reference leaves the
item out, and is counted. No item leaves for any other reason.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from capienza.quality.answers import Answer, Answers
from capienza.quality.corpus import Corpus, Item
from capienza.quality.metrics.figure import Figure, figure_of
from capienza.quality.plan import PlannedMetric

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


def paired(metric: PlannedMetric, corpus: Corpus, reference: Answers, candidate: Answers) -> Pairs:
    """The two figures of every item whose reference answer can be judged."""
    figure = figure_of(metric)
    is_relative = metric.kind in ("kl", "same_top")
    numbers: dict[str, int] = {}
    pairs = Pairs([], [], [], Counts(), Counts(), 0)
    left_out, worst, still_open = _Tally(), _Tally(), 0
    for item in corpus.items:
        ours = 0.0 if is_relative else left_out.add(figure, item, reference.by_item.get(item.id))
        if ours is None:
            continue
        theirs = worst.add(figure, item, candidate.by_item.get(item.id))
        if theirs is None and metric.kind in NO_WORST:
            still_open += 1
            continue
        pairs.reference.append(ours)
        pairs.candidate.append(theirs or 0.0)
        pairs.clusters.append(numbers.setdefault(item.cluster, len(numbers)))
    return pairs._replace(of_reference=left_out.counts(), of_candidate=worst.counts(), open_items=still_open)


class _Tally:
    """Counts what cannot be judged while figures are taken."""

    def __init__(self) -> None:
        self.missing = self.truncated = self.unparsable = 0

    def add(self, figure: Figure, item: Item, answer: Answer | None) -> float | None:
        """The figure of an answer, or None after counting why there is none."""
        if answer is None or answer.output is None:
            self.missing += 1
            return None
        if answer.is_truncated:
            self.truncated += 1
            return None
        found = figure(item, answer)
        self.unparsable += found is None
        return found

    def counts(self) -> Counts:
        """What was counted."""
        return Counts(missing=self.missing, truncated=self.truncated, unparsable=self.unparsable)
