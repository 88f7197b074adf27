"""Which criteria there are, in which order they are shown, and what a decision is pinned to.

A new criterion is one file under `criteria/` and one row here. Changing this changes the digest that every decision
record carries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from capienza.canon import digest
from capienza.decide.case import Case
from capienza.decide.criteria import budget, compatibility, memory, placement, quality, workload
from capienza.decide.verdict import CriterionVerdict
from capienza.evidence import rank

VERSION = 1
"""Raised when the logic of a criterion changes materially."""


class Criterion(msgspec.Struct, frozen=True):
    """A mandatory criterion. `per` card class: the same for every offer of one GPU claim; per offer: its own."""

    id: str
    judge: Callable[[Case], CriterionVerdict]
    per: Literal["card class", "offer"]


CRITERIA = (
    Criterion(workload.CRITERION, workload.judge, "card class"),
    Criterion(compatibility.CRITERION, compatibility.judge, "card class"),
    Criterion(memory.CRITERION, memory.judge, "card class"),
    Criterion(quality.CRITERION, quality.judge, "card class"),
    Criterion(placement.CRITERION, placement.judge, "offer"),
    Criterion(budget.CRITERION, budget.judge, "offer"),
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
                "document": rank.DOCUMENT,
                "offer document": rank.OFFER_DOCUMENT,
                "measured": rank.MEASURED,
                "measured here": rank.MEASURED_HERE,
            },
            "ranking": RANKING,
        }
    )
