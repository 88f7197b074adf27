"""Which record outweighs which: measured on this offer, measured on this GPU, documents, trace, analytic, arithmetic.

Two records of equal rank that disagree are a conflict; a higher rank overrides a lower one and says so.
"""

from __future__ import annotations

from capienza.evidence.claims import DOCUMENT_SOURCES, INVOICE
from capienza.evidence.record import Record

ARITHMETIC, ANALYTIC, TRACE = 10, 20, 30
DOCUMENT = 31
DOCUMENTS = {
    source: DOCUMENT + min(place, DOCUMENT_SOURCES.index(INVOICE)) for place, source in enumerate(DOCUMENT_SOURCES)
}
"""Rank by source: each better one is one more, and an invoice binds like a contract."""
MEASURED = 40
MEASURED_HERE = 50
OFFER_DOCUMENT = DOCUMENTS["public_page"]
"""Rank of the sheet, page or quote that an offer was read from."""

FIDELITIES = {"arithmetic": ARITHMETIC, "analytic": ANALYTIC, "trace": TRACE}


def rank(record: Record, offer: str | None = None) -> int:
    """The record's rank for a decision on `offer`. What does not name its source has the lowest of its ladder."""
    if record.kind in ("measurement", "quality_result"):
        return MEASURED_HERE if offer is not None and record.scope.offer == offer else MEASURED
    if record.kind == "document":
        return DOCUMENTS.get(record.producer.get("source", ""), DOCUMENT)
    return FIDELITIES.get(record.producer.get("fidelity", ""), ARITHMETIC)
