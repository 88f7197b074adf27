"""A decision as a record: what was decided, on which card, offers, records and policy, by which version."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Iterable

from capienza import __version__
from capienza.canon import canonical, digest
from capienza.card.model import Card
from capienza.catalog.offer import Offer
from capienza.decide.case import name_of_file
from capienza.decide.documents import offer_digest
from capienza.decide.need import model_name
from capienza.decide.policy import VERSION, policy_digest
from capienza.decide.verdict import Decision
from capienza.evidence.record import Claim, Record, Scope, Subject
from capienza.evidence.store import root, seal


def offers_digest(offers: Iterable[Offer]) -> str:
    """The Merkle root of the offers' digests, whatever their order and the file they lie in."""
    return root(offer_digest(offer) for offer in offers)


def decision_record(
    card: Card,
    decisions: Iterable[Decision],
    offers_sha256: str,
    records: Iterable[Record],
    now: datetime.datetime,
) -> Record:
    """The sealed record of one run of `decide`.

    It names every selected offer, counts the rest, pins all decisions by one digest, and names every record that was
    read, so that one taken away later is missed by its id. It expires with the first of the evidence that the selected
    ones rest on.
    """
    counts = {"admissible": 0, "to_confirm": 0, "exclude": 0}
    everything = hashlib.sha256()
    selected: list[Decision] = []
    for decision in decisions:
        counts[decision.state] += 1
        everything.update(canonical(decision) + b"\n")
        if decision.state == "admissible":
            selected.append(decision)
    known = {record.id for record in records}
    cited = [ref for decision in selected for row in decision.criteria for ref in row.evidence]
    return seal(
        Record(
            kind="decision",
            version=str(VERSION),
            date=now,
            subject=(
                Subject(name="card", uri=name_of_file(card), sha256=card.sha256 or digest(card)),
                Subject(name="offers", sha256=offers_sha256),
                Subject(name="records", sha256=root(known)),
                Subject(name="policy", sha256=policy_digest()),
                Subject(name="decisions", sha256=everything.hexdigest()),
            ),
            scope=Scope(model=model_name(card), revision=card.model.revision, task=card.task),
            claims=(
                *(Claim(quantity=state, value=count) for state, count in counts.items()),
                *(Claim(quantity="selected", value=decision.offer) for decision in selected),
            ),
            method="compute",
            mode="automatic",
            producer={"tool": "capienza", "version": __version__},
            inputs=tuple(sorted(known)),
            expires=min((ref.expires for ref in cited if ref.expires is not None), default=None),
        )
    )
