"""Decide again what a decision record says was decided, from the same card, offers and records."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from capienza import __version__
from capienza.api.deciding import candidates_of, decided_with
from capienza.card.model import Card
from capienza.catalog.notes import Findings
from capienza.decide.policy import policy_digest
from capienza.decide.run import Minutes
from capienza.errors import CapienzaError, Message, Place, VerificationError, template
from capienza.evidence.record import Record
from capienza.evidence.verify import pinned

NO_CARD = template(
    "evidence.decision-without-card",
    "decision {record} was not decided again: no card is given",
    "give its card and offers: capienza evidence verify --card CARD --offers FILE",
)
OTHER_CARD = template(
    "evidence.decision-of-another-card",
    "decision {record} was not decided again: it was made on another card",
    "give the very files of that decision",
)
OTHER_OFFERS = template(
    "evidence.decision-of-other-offers",
    "decision {record} was not decided again: it was made on other offers",
    "give the very files of that decision",
)
OTHER_PROGRAM = template(
    "evidence.decision-of-another-program",
    "decision {record} was not decided again: version {found} made it, this is {known}",
    "decide again with this version and keep that",
)
RECORDS_LOST = template(
    "evidence.decision-without-records",
    "decision {record} was not decided again: records that it was made on are not here",
)
OTHER_TEXTS = template(
    "evidence.decision-other-texts",
    "decision {record} comes out again offer by offer; its texts do not, as from another path of the card or model",
    "run it from the folder in which the decision was made",
)
NOT_AGAIN = template(
    "evidence.decision-not-again",
    "decision {record} does not come out again: it says {stated}; decided now: {found}",
    "the record was not made by this program from these files; decide again",
)


def recheck(
    record: Record, folder: Iterable[Record], card: Card | None, offers: Sequence[str | Path] | None, place: Path
) -> Message | CapienzaError | None:
    """None when the decision comes out again; else why it was not tried, or the error that it does not.

    Raises what `decide` raises for offers or a model that cannot be read.
    """
    short = record.id[:12]
    if card is None:
        return NO_CARD(record=short)
    if pinned(record, "card") != card.sha256:
        return OTHER_CARD(record=short)
    if pinned(record, "policy") != policy_digest() or record.producer.get("version") != __version__:
        return OTHER_PROGRAM(record=short, found=record.producer.get("version", "?"), known=__version__)
    records = tuple(other for other in folder if other.id in record.inputs)
    if len(records) != len(record.inputs):
        return RECORDS_LOST(record=short)
    minutes = Minutes()
    named = next((subject.uri for subject in record.subject if subject.name == "card"), None)
    findings = Findings()
    candidates = candidates_of(card, offers, findings)
    own = msgspec.structs.replace(card, file=named)
    decided = decided_with(own, candidates, records, record.date, findings, minutes=minutes)
    deque(decided.judged, maxlen=0)
    again = minutes.record(decided.card, records, record.date)
    if again.id == record.id:
        return None
    if pinned(again, "offers") != pinned(record, "offers"):
        return OTHER_OFFERS(record=short)
    if again.claims == record.claims:
        return OTHER_TEXTS(record=short)
    where = Place(str(place / f"{record.id}.json"))
    return VerificationError(NOT_AGAIN(record=short, stated=_counts(record), found=_counts(again)), where)


def _counts(record: Record) -> str:
    return ", ".join(f"{claim.quantity} {claim.value}" for claim in record.claims[:12])
