"""Where the figures of a decision come from: a mark for each record, document, calculation, bill and input.

E evidence (records and documents), K calculations, B bills, I what was put in. A mark is numbered where its source
first appears, so equal decisions have equal marks. `NOTHING_CITED` gives none: a terminal has no place to point to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from capienza.decide.criteria.memory import CALCULATION, calculation_digest
from capienza.decide.dossier import Detail, Dossier
from capienza.decide.verdict import Decision, EvidenceRef, cite
from capienza.errors import Message
from capienza.report.blocks import Link, Mark, Text

CARD, OFFERS, RECORDS, RULES = (Mark(f"I{number}") for number in range(1, 5))
INPUTS = (CARD, OFFERS, RECORDS, RULES)
NAMING = ("record", "document", "by", "plan", "waiver", "lower", "higher", "statements")
"""Parameters of a message that name what it speaks of."""
KEPT_MARKS = 4
"""Marks behind one reason that names no record itself."""


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """Labels by what they stand for. `calculations` are by digest, `calculated` by offer, `names` by short id."""

    evidence: Mapping[EvidenceRef, str] = {}
    names: Mapping[str, str] = {}
    calculations: Mapping[str, str] = {}
    calculated: Mapping[str, str] = {}
    offers: Mapping[str, int] = {}
    inputs: tuple[Mark, ...] = ()

    def marks(self, references: Iterable[EvidenceRef]) -> tuple[Mark, ...]:
        """The marks of some evidence, each once."""
        labels = (
            self.calculations.get(one.sha256 or "") if one.id == CALCULATION else self.evidence.get(one)
            for one in references
        )
        return tuple(Mark(label) for label in dict.fromkeys(labels) if label is not None)

    def of_message(self, message: Message, evidence: Iterable[EvidenceRef]) -> tuple[Mark, ...]:
        """The marks of what a message names; where it names nothing, of the evidence it stands beside."""
        names = named_by(message)
        beside = tuple(evidence)
        near = {short_id(one): self.evidence[one] for one in beside if one in self.evidence}
        labels = dict.fromkeys(near.get(name) or self.names.get(name) for name in names)
        named = tuple(Mark(label) for label in labels if label is not None)
        return named or self.marks(beside)[:KEPT_MARKS] or self.inputs[:1]

    def offer(self, name: str) -> Text:
        """The name of an offer, leading to where it is shown in full."""
        number = self.offers.get(name)
        return name if number is None else (Link(name, offer_anchor(number)),)

    def bill(self, decision: Decision) -> tuple[Mark, ...]:
        """Where the cost comes from."""
        number = self.offers.get(decision.offer)
        return self.of_criterion(decision, "budget") if number is None else (bill_mark(number),)

    def margin(self, decision: Decision) -> tuple[Mark, ...]:
        """Where the useful margin comes from."""
        if decision.margin is not None and decision.margin.basis == "observed":
            return self.of_criterion(decision, "memory")
        return self.prediction(decision.offer)

    def prediction(self, name: str) -> tuple[Mark, ...]:
        """The calculation that an offer was judged by."""
        label = self.calculated.get(name)
        return () if label is None else (Mark(label),)

    def finish(self, decision: Decision) -> tuple[Mark, ...]:
        """Where the end of the work comes from: the card's calendar and the offer's dates."""
        return (*self.inputs[:1], *self.of_criterion(decision, "budget"))

    def of_criterion(self, decision: Decision, criterion: str) -> tuple[Mark, ...]:
        """The evidence of one criterion."""
        return self.marks(one for row in decision.criteria if row.criterion == criterion for one in row.evidence)


NOTHING_CITED = Sources()


def sources_of(dossier: Dossier) -> Sources:
    """Number everything that a document on this dossier cites."""
    evidence: dict[EvidenceRef, str] = {}
    calculations: dict[str, str] = {}
    calculated: dict[str, str] = {}
    by_short_id = {identity[:12]: record for identity, record in dossier.records.items()}
    for name, detail in dossier.shown.items():
        if detail.sizing.ledger is not None:
            sha256 = calculation_digest(detail.sizing)
            calculated[name] = calculations.setdefault(sha256, f"K{len(calculations) + 1}")
        for one in _cited(detail):
            if one.id != CALCULATION:
                evidence.setdefault(one, f"E{len(evidence) + 1}")
        # A record that is named as one that does not count can be looked up too.
        for short in _named(detail):
            if short in by_short_id:
                evidence.setdefault(cite(by_short_id[short]), f"E{len(evidence) + 1}")
    for one in list(evidence):
        record = dossier.records.get(one.id)
        for identity in record.inputs if record else ():  # the plan of a result, the record that one replaces
            if identity in dossier.records:
                evidence.setdefault(cite(dossier.records[identity]), f"E{len(evidence) + 1}")
    return Sources(
        evidence=evidence,
        names={short_id(one): label for one, label in reversed(evidence.items())},
        calculations=calculations,
        calculated=calculated,
        offers={detail.offer.id: number for number, detail in enumerate(dossier.in_full, start=1)},
        inputs=INPUTS,
    )


def short_id(reference: EvidenceRef) -> str:
    """How a source is called in a sentence: a record by the first digits of its id, a document by its name."""
    return reference.id[:12] if len(reference.id) == 64 else reference.id


def offer_anchor(number: int) -> str:
    """The anchor of an offer shown in full."""
    return f"offer-{number}"


def bill_mark(number: int) -> Mark:
    """The mark of the bill of an offer shown in full."""
    return Mark(f"B{number}")


def named_by(message: Message) -> tuple[str, ...]:
    """The short ids of records and the names of documents in a message."""
    names: list[str] = []
    for parameter, value in message.parameters.items():
        if parameter in NAMING:
            names += [value] if isinstance(value, str) else value if isinstance(value, list | tuple) else []
    return tuple(names)


def _named(detail: Detail) -> Iterable[str]:
    for row in detail.decision.criteria:
        for message in (*row.reasons, *row.settle):
            yield from named_by(message)


def _cited(detail: Detail) -> Iterable[EvidenceRef]:
    for row in detail.decision.criteria:
        yield from row.evidence
        yield from row.failures
        if row.waiver is not None:
            yield row.waiver
