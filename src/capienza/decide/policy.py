"""Which criteria there are, in which order they are shown, and what a decision is pinned to.

A new criterion is one file under `criteria/` and one row here. Changing this changes the digest that every decision
record carries.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from capienza.canon import digest
from capienza.card.model import Card
from capienza.decide.case import Case
from capienza.decide.criteria import budget, compatibility, memory, placement, quality, workload
from capienza.decide.verdict import CriterionVerdict
from capienza.evidence import rank

VERSION = 2
"""Raised when the logic of a criterion changes materially."""


class Criterion(msgspec.Struct, frozen=True):
    """A mandatory criterion. Where `same_for_all` says so for a card, one verdict holds for a whole card class."""

    id: str
    judge: Callable[[Case], CriterionVerdict]
    same_for_all: Callable[[Card], bool]


def _always(_: Card) -> bool:
    return True


def _never(_: Card) -> bool:
    return False


CRITERIA = (
    Criterion(workload.CRITERION, workload.judge, _always),
    Criterion(compatibility.CRITERION, compatibility.judge, _never),
    Criterion(memory.CRITERION, memory.judge, _always),
    Criterion(quality.CRITERION, quality.judge, _always),
    Criterion(placement.CRITERION, placement.judge, _never),
    Criterion(budget.CRITERION, budget.judge, budget.same_for_all),
)
RANKING = ("total package cost", "useful margin", "documented calendar", "preferences")
"""Order of the admissible, the last as a tie-break only."""


def policy_digest() -> str:
    """The sha256 of version, criteria, ranks and ranking."""
    return digest(
        {
            "version": VERSION,
            "criteria": [criterion.id for criterion in CRITERIA],
            "ranks": {
                **rank.FIDELITIES,
                **rank.DOCUMENTS,
                "offer document": rank.OFFER_DOCUMENT,
                "measured": rank.MEASURED,
                "measured here": rank.MEASURED_HERE,
            },
            "ranking": RANKING,
        }
    )
