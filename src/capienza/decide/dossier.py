"""A decision with everything that a person needs to sign it: offers in full, what they rest on, what ends it.

Nothing here reads a clock: the moment of the decision is part of it, so equal inputs give an equal dossier.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from capienza.canon import digest
from capienza.catalog.offer import Offer
from capienza.decide.case import Evidence, Sizing, gpus_to_spread
from capienza.decide.documents import offer_digest
from capienza.decide.driver_readings import read_sizing
from capienza.decide.gather import Gathering, GpuCount
from capienza.decide.invalidate import (
    Expiry,
    Invalidator,
    cited_by,
    endings,
    expiry_of,
    input_changes,
    offer_changes,
    scope_changes,
)
from capienza.decide.policy import policy_digest
from capienza.decide.run import Decided
from capienza.decide.summary import Summary
from capienza.decide.verdict import Decision
from capienza.evidence.record import Record
from capienza.evidence.standing import standing
from capienza.evidence.store import root

KEPT_ROWS = 40
"""Ranked offers that a document shows, and as many excluded ones; how many it leaves out is said."""
KEPT_SELECTED = 10
KEPT_TO_CONFIRM = 5
"""Of those, the offers shown in full."""


class Detail(msgspec.Struct, frozen=True, kw_only=True):
    """One offer in full."""

    offer: Offer
    decision: Decision
    sizing: Sizing


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """The digests (sha256) of all that was decided on. Equal ones mean the same decision."""

    card: str
    offers: str
    records: str
    policy: str


class Dossier(msgspec.Struct, frozen=True, kw_only=True):
    """What is signed. `shown` are the offers of its tables by name, `in_full` the first selected and to confirm."""

    decided: Decided
    summary: Summary
    gpus: Mapping[str, GpuCount]
    shown: Mapping[str, Detail]
    in_full: tuple[Detail, ...]
    left_out: int
    records: Mapping[str, Record]
    identity: Identity
    invalidators: tuple[Invalidator, ...]
    expiry: Expiry | None


def dossier_of(decided: Decided, summary: Summary, gathering: Gathering) -> Dossier:
    """Put together what a run gave; `gathering` has watched all its offers pass."""
    records = {record.id: record for record in decided.records}
    lists = summary.shortlist.lists
    selected = [place.offer for one in lists for place in one.selected]
    waiting = [place.offer for one in lists for place in one.to_confirm]
    first = (*selected[:KEPT_SELECTED], *waiting[:KEPT_TO_CONFIRM])
    evidence = Evidence(standing(decided.records, decided.now))
    names = dict.fromkeys((*first, *kept_ranked(summary), *kept_excluded(summary)))
    shown = {name: _detail(name, decided, summary, gathering, evidence) for name in names}
    in_full = tuple(shown[name] for name in first)
    identity = Identity(
        card=decided.card.sha256 or digest(decided.card),
        offers=gathering.digest(),
        records=root(records),
        policy=policy_digest(),
    )
    concluding = [summary.by_offer[name] for name in selected]
    # What an offer alone rests on is named for those shown in full; the end of the whole counts every one.
    named = [detail for detail in in_full if detail.decision.state == "admissible"]
    return Dossier(
        decided=decided,
        summary=summary,
        gpus={name: GpuCount(detail.offer.gpu, detail.offer.gpus) for name, detail in shown.items()},
        shown=shown,
        in_full=in_full,
        left_out=len(selected) + len(waiting) - len(in_full),
        records=records,
        identity=identity,
        invalidators=tuple(_invalidators(decided, named, records, identity)),
        expiry=expiry_of(cited_by(concluding)),
    )


def kept_ranked(summary: Summary) -> tuple[str, ...]:
    """The first ranked offers: list by list, the selected of each before those to confirm."""
    lists = summary.shortlist.lists
    return tuple(place.offer for one in lists for place in (*one.selected, *one.to_confirm))[:KEPT_ROWS]


def kept_excluded(summary: Summary) -> tuple[str, ...]:
    """The first excluded offers."""
    return tuple(decision.offer for decision in summary.excluded[:KEPT_ROWS])


def _detail(name: str, decided: Decided, summary: Summary, gathering: Gathering, evidence: Evidence) -> Detail:
    offer = gathering.offer(name)
    sizing = read_sizing(offer, gpus_to_spread(decided.card, offer), evidence, decided.sizing_for)
    return Detail(offer=offer, decision=summary.by_offer[name], sizing=sizing)


def _invalidators(
    decided: Decided, selected: list[Detail], records: Mapping[str, Record], identity: Identity
) -> Iterable[Invalidator]:
    evidence = cited_by(detail.decision for detail in selected)
    yield from endings(evidence)
    yield from scope_changes(evidence, records)
    for one in selected:
        yield from offer_changes(decided.card, one.offer, one.decision, one.sizing, offer_digest(one.offer))
    yield from input_changes(decided.card, identity.card, identity.records, identity.policy)
