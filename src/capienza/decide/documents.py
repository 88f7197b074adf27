"""What the document of an offer proves, and what other documents add about that offer.

An offer counts only with a document that is dated and in date. A document record whose scope names the offer may
state a property under the name of the offer's own field; a contract outweighs a page, a page a catalogue. What a probe
of the very machine read there outweighs them all; a probe whose scope names no offer says nothing of an offer.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import msgspec

from capienza.canon import digest_bytes
from capienza.catalog.offer import Offer
from capienza.decide.case import Case
from capienza.decide.verdict import EvidenceRef, Finding, cite
from capienza.decide.weigh import Says, Stance, weigh
from capienza.errors import NOWHERE, Message, Template, template
from capienza.evidence.claims import find
from capienza.evidence.rank import OFFER_DOCUMENT, rank
from capienza.evidence.record import Claim, Record
from capienza.truth import Truth
from capienza.units import UNITS, QuantityError, parse_size

DOCUMENT_MISSING = template(
    "decide.document-missing",
    "the offer names no document it was read from",
    "write document: with id, version and retrieved in the offers file",
)
DOCUMENT_UNDATED = template(
    "decide.document-undated",
    "the document {document} has no date of retrieval",
    "write document.retrieved in the offers file",
)
DOCUMENT_FUTURE = template(
    "decide.document-future",
    "the document {document} is dated {date}, after the moment of this decision",
    "check document.retrieved in the offers file",
)
OFFER_EXPIRED = template(
    "decide.offer-expired",
    "the offer expired on {until}",
    "ask the seller for a new quote",
)
OFFER_NOT_YET = template(
    "decide.offer-not-yet-valid",
    "the offer can be accepted from {start} only",
    "decide again then, or ask the seller for a quote that holds now",
)

VALUE_UNREADABLE = template(
    "decide.value-unreadable",
    "document {document} states {field} as {found}, which cannot be compared",
    "write a number with its unit, or the word that the card uses",
)
READ_THERE = template(
    "decide.property-read-there",
    "record {record} read that on the machine of this offer, which outweighs what documents say",
)
FREE_ONLY = template(
    "decide.property-free-only",
    "record {record} read only what was free there at that moment: the whole may be more",
    "record the size of the whole, or free what is needed",
)
FREE = "free"
"""The basis of a claim that tells what is free of something, which is the least that the whole can be."""
READ = ("measure", "examine")
"""How a record was made that shows what is there; what is computed or promised shows nothing."""
PROMISED = ("starts_at",)
"""Properties that only the seller can state."""


class PropertyTexts(msgspec.Struct, frozen=True):
    """How a property is reported; each takes `stated` and `needed` parameters of the same names."""

    meets: Template
    below: Template
    undocumented: Template
    ask: Template


Shown = tuple[EvidenceRef | None, Message | None]
DocumentFor = Callable[[Offer, datetime.datetime], Shown]


def document_of(offer: Offer, now: datetime.datetime) -> Shown:
    """The offer's document as evidence, or why it does not count now."""
    document = offer.document
    if document is None:
        return None, DOCUMENT_MISSING()
    date = document.retrieved or document.valid_from
    if date is None:
        return None, DOCUMENT_UNDATED(document=document.id)
    ends = [moment for moment in (document.valid_until, offer.price.ends_at) if moment is not None]
    if ends and min(ends) <= now:
        return None, OFFER_EXPIRED(until=min(ends).isoformat())
    if document.valid_from is not None and document.valid_from > now:
        return None, OFFER_NOT_YET(start=document.valid_from.isoformat())
    if date > now:
        return None, DOCUMENT_FUTURE(document=document.id, date=date.isoformat())
    reference = EvidenceRef(
        id=document.id,
        version=document.version,
        scope=f"offer={offer.id}",
        sha256=offer_digest(offer),
        date=date,
        expires=min(ends, default=None),
    )
    return reference, None


def offer_digest(offer: Offer) -> str:
    """The sha256 of the offer's canonical JSON, wherever its file lies."""
    return digest_bytes(offer_bytes(offer))


def offer_bytes(offer: Offer) -> bytes:
    """The offer's canonical JSON, wherever its file lies.

    Written by the fast encoder: for an offer (no floats) its sorted output is the canonical form, byte for byte.
    """
    return msgspec.json.encode(msgspec.structs.replace(offer, place=NOWHERE), order="sorted")


class Stated(msgspec.Struct, frozen=True):
    """A documented value of a property; `doubts` say why it cannot support.

    `is_read`: on the machine of the offer. `is_least`: the true value may be more.
    """

    value: str | int
    rank: int
    evidence: EvidenceRef
    doubts: tuple[Message, ...] = ()
    is_read: bool = False
    is_least: bool = False


def stated_values(case: Case, quantity: str, offered: str | int | None) -> list[Stated]:
    """Each documented value of a property of this offer: its document's, then those of records that name it."""
    found = []
    if offered is not None and case.document is not None:
        found.append(Stated(offered, OFFER_DOCUMENT, case.document))
    if case.offer.id in case.evidence.offers:
        for record in case.evidence.about(quantity):
            if _speaks_of(record, case.offer, quantity):
                doubts = case.evidence.weak.get(record.id, ())
                is_read = record.kind == "measurement"
                found += [
                    Stated(
                        claim_value(claim),
                        rank(record, case.offer.id),
                        cite(record),
                        doubts,
                        is_read,
                        is_read and claim.basis == FREE,
                    )
                    for claim in find(record, quantity)
                ]
    return found


def _speaks_of(record: Record, offer: Offer, quantity: str) -> bool:
    """Is it a document about the offer, or a reading of its machine? What is promised cannot be read there."""
    if record.scope.offer != offer.id or record.scope.provider not in (None, offer.provider):
        return False
    if record.kind == "document":
        return True
    return record.kind == "measurement" and record.method in READ and quantity not in PROMISED


def claim_value(claim: Claim) -> str | int:
    """The value of a claim: bytes when its unit is one of memory, a whole number when it is one, else its text."""
    text = str(claim.value)
    if claim.unit in UNITS:
        try:
            return parse_size(f"{text} {claim.unit}")
        except QuantityError:
            return text
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 19 else text


def judge_property(
    case: Case,
    quantity: str,
    offered: str | int | None,
    meets: Callable[[Any], bool],
    texts: PropertyTexts,
    **needed: str | int,
) -> Finding:
    """Is a property of the offer documented as needed?

    `needed` is the parameter that the texts take beside `stated`; its type is the one a value must have.
    """
    if offered is None and case.offer.id not in case.evidence.offers:
        # Nobody states it, so the answer is the same for all such offers of a card class.
        key = ("undocumented", quantity, texts.undocumented.code, *needed.values())
        known: Finding | None = case.shared.get(key)
        if known is None:
            known = case.shared[key] = _undocumented(texts, [], **needed)
        return known
    (wanted,) = needed.values()
    suffix = "_bytes" if all(name.endswith("_bytes") for name in needed) else ""
    stances: list[Stance] = []
    reasons: list[Message] = []
    for stated in stated_values(case, quantity, offered):
        if type(stated.value) is not type(wanted):
            reasons.append(VALUE_UNREADABLE(document=stated.evidence.id[:12], field=quantity, found=str(stated.value)))
            continue
        met = meets(stated.value)
        if met and stated.doubts:
            reasons += stated.doubts
            continue
        text = (texts.meets if met else texts.below)(**{f"stated{suffix}": stated.value}, **needed)
        stances.append(_stance(stated, met, text, texts.ask(**needed)))
    if stances:
        return weigh(stances)
    if offered is not None and case.document_problem is not None:
        reasons.append(case.document_problem)
    return _undocumented(texts, reasons, **needed)


def _stance(stated: Stated, met: bool, text: Message, ask: Message) -> Stance:
    """What one value says; one that the true value may exceed cannot fail."""
    says: Says = "supports" if met else "doubts" if stated.is_least else "violates"
    notes: tuple[Message, ...] = ()
    if stated.is_read:
        notes = ((FREE_ONLY if says == "doubts" else READ_THERE)(record=stated.evidence.id[:12]),)
    return Stance(
        says=says,
        rank=stated.rank,
        evidence=stated.evidence,
        reasons=(text, *notes),
        settle=(ask,) if says == "doubts" else (),
    )


def _undocumented(texts: PropertyTexts, reasons: list[Message], **needed: str | int) -> Finding:
    return Finding(
        truth=Truth.UNKNOWN,
        reasons=(texts.undocumented(**needed), *reasons),
        settle=(texts.ask(**needed),),
    )
