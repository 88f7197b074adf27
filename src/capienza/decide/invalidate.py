"""What would invalidate a conclusion: read from the scopes, ends and digests that it rests on, never invented.

A conclusion is what the selected offers stand on. Each line names the change and the evidence it is read from; what
no record, document or card states gives no line.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from capienza.card.model import Budget, Calendar, Card, Host
from capienza.catalog.offer import Offer
from capienza.decide.case import Sizing
from capienza.decide.verdict import Decision, EvidenceRef
from capienza.errors import Message, Template, template
from capienza.evidence.claims import ANY
from capienza.evidence.record import Record

CARD = template("decide.invalid-card", "another card: the digest of this one is {digest}")
RECORDS = template("decide.invalid-records", "a record added or withdrawn: the root of this set is {digest}")
OFFER = template("decide.invalid-offer", "other terms of {offer}: the digest of these is {digest}")
POLICY = template("decide.invalid-policy", "other rules of decision than those with the digest {digest}")
EXPIRES = template("decide.invalid-expired", "from {until} on: {evidence} has expired")
PEAK = template("decide.invalid-peak", "{offer}: a peak above {limit_bytes} on a GPU, in whatever phase")
OTHERS = template("decide.invalid-others", "more than {amount_bytes} of a GPU used by other programs")
ANY_OTHERS = template("decide.invalid-any-others", "memory of a GPU used by other programs; the card says none")
CAP = template("decide.invalid-cap", "{offer}: a bill above {cap}; as planned it is {cost}")
DEADLINE = template("decide.invalid-deadline", "{offer}: an end after {deadline}; as planned it is {finish}")
MACHINE_DRIVER = template("decide.invalid-machine-driver", "{offer}: another driver on the machine than {value}")

SCOPE: dict[str, Template] = {
    "model": template("decide.invalid-model", "another model than {value}"),
    "revision": template("decide.invalid-revision", "another revision of the model than {value}"),
    "task": template("decide.invalid-task", "another task than {value}"),
    "weight_format": template("decide.invalid-weight-format", "weights in another format than {value}"),
    "kv_format": template("decide.invalid-kv-format", "a cache in another format than {value}"),
    "engine": template("decide.invalid-engine", "another engine than {value}"),
    "engine_version": template("decide.invalid-engine-version", "another version of the engine than {value}"),
    "gpu": template("decide.invalid-gpu", "another GPU than {value}"),
    "gpus": template("decide.invalid-gpus", "another number of GPUs for one copy than {value}"),
    "driver": template("decide.invalid-driver", "another driver than {value}"),
    "provider": template("decide.invalid-provider", "another seller than {value}"),
    "tokens": template("decide.invalid-tokens", "more than {value} tokens in one sequence"),
    "concurrency": template("decide.invalid-concurrency", "more than {value} sequences at a time"),
    "microbatch": template("decide.invalid-microbatch", "a microbatch above {value}"),
    "configuration": template("decide.invalid-configuration", "another configuration than {value}"),
}
"""By field of a scope. `offer` is left out: the digest of its terms says more."""


class Invalidator(msgspec.Struct, frozen=True, kw_only=True):
    """A change that ends the conclusion, and the evidence it was read from (none: the inputs of the run)."""

    message: Message
    evidence: tuple[EvidenceRef, ...] = ()


class Expiry(msgspec.Struct, frozen=True):
    """The first end among the evidence, and whose it is."""

    moment: datetime.datetime
    evidence: EvidenceRef


def cited_by(decisions: Iterable[Decision]) -> tuple[EvidenceRef, ...]:
    """All evidence of some decisions, each once, in order of appearance."""
    found: dict[EvidenceRef, None] = {}
    # Verdicts are shared by all offers of a card class: each is looked through once.
    seen: set[int] = set()
    for decision in decisions:
        for row in decision.criteria:
            if id(row) not in seen:
                seen.add(id(row))
                found |= dict.fromkeys(row.evidence)
    return tuple(found)


def expiry_of(evidence: Iterable[EvidenceRef]) -> Expiry | None:
    """The earliest end; None when nothing of it ends."""
    ends = [(one.expires, one) for one in evidence if one.expires is not None]
    return Expiry(*min(ends, key=lambda end: (end[0], end[1].id))) if ends else None


def scope_changes(evidence: Iterable[EvidenceRef], records: Mapping[str, Record]) -> Iterator[Invalidator]:
    """What the records speak of, field by field; records that state the same share a line."""
    stated: dict[tuple[str, str | int], list[EvidenceRef]] = {}
    for one in evidence:
        record = records.get(one.id)
        for field in SCOPE if record is not None else ():
            value = getattr(record.scope, field) if record is not None else None
            if value is not None and value != ANY:
                stated.setdefault((field, value), []).append(one)
    for field in SCOPE:
        for (name, value), sources in stated.items():
            if name == field:
                yield Invalidator(message=SCOPE[field](value=value), evidence=tuple(sources))


def endings(evidence: Iterable[EvidenceRef]) -> Iterator[Invalidator]:
    """What expires, the first to do so first."""
    ends = [(one.expires, one) for one in evidence if one.expires is not None]
    for until, one in sorted(ends, key=lambda end: (end[0], end[1].id)):
        name = one.id[:12] if len(one.id) == 64 else one.id
        yield Invalidator(message=EXPIRES(until=until, evidence=name), evidence=(one,))


def offer_changes(
    card: Card, offer: Offer, decision: Decision, sizing: Sizing, offer_sha256: str
) -> Iterator[Invalidator]:
    """What would end the conclusion on one offer: its terms, its peak, its bill, its calendar."""
    name = {"offer": offer.id}
    yield Invalidator(message=OFFER(**name, digest=offer_sha256[:12]), evidence=_evidence(decision, "budget"))
    if offer.host.driver_version is not None:
        yield Invalidator(message=MACHINE_DRIVER(**name, value=offer.host.driver_version))
    usable = sizing.capacity.smallest_usable_bytes if sizing.capacity else None
    if usable is not None and card.margin is not None and usable > card.margin.amount_bytes:
        limit = usable - card.margin.amount_bytes
        yield Invalidator(message=PEAK(**name, limit_bytes=limit), evidence=_evidence(decision, "memory"))
    cost, cap = decision.cost.planned, card.budget.cap if isinstance(card.budget, Budget) else None
    if cost is not None and cap is not None and cost.currency == cap.currency:
        yield Invalidator(message=CAP(**name, cap=cap, cost=cost), evidence=_evidence(decision, "budget"))
    deadline = card.calendar.deadline if isinstance(card.calendar, Calendar) else None
    if deadline is not None and decision.finish is not None:
        message = DEADLINE(**name, deadline=deadline, finish=decision.finish)
        yield Invalidator(message=message, evidence=_evidence(decision, "budget"))


def input_changes(card: Card, card_sha256: str, records_root: str, policy: str) -> Iterator[Invalidator]:
    """Other inputs give another decision; their digests say that they are others."""
    yield Invalidator(message=CARD(digest=card_sha256[:12]))
    if isinstance(card.host, Host) and card.host.others_use_bytes is not None:
        used = card.host.others_use_bytes
        yield Invalidator(message=OTHERS(amount_bytes=used) if used else ANY_OTHERS())
    yield Invalidator(message=RECORDS(digest=records_root[:12]))
    yield Invalidator(message=POLICY(digest=policy[:12]))


def _evidence(decision: Decision, criterion: str) -> tuple[EvidenceRef, ...]:
    return next((row.evidence for row in decision.criteria if row.criterion == criterion), ())
