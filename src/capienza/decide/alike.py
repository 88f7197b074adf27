"""Offers that are alike in all that a judgement looks at share it; the document that proves it is each one's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from capienza.decide.case import Case
from capienza.decide.verdict import CriterionVerdict, EvidenceRef, Finding

STAND_IN = EvidenceRef(id="the document of the offer")
T = TypeVar("T", Finding, CriterionVerdict)


def judged_alike(case: Case, key: tuple[object, ...], judge: Callable[[Case], T]) -> T:
    """What `judge` says of the case, worked out once for all offers of a card class with the same `key`.

    `key` holds every property of the offer that `judge` looks at, beside its document, which it only cites. An offer
    that a record names, or whose document does not count, is judged by itself.
    """
    document = case.document
    if document is None or case.offer.id in case.evidence.offers:
        return judge(case)
    known: T | None = case.shared.get(key)
    if known is None:
        known = case.shared[key] = judge(msgspec.structs.replace(case, document=STAND_IN))
    evidence, failures = _own(known.evidence, document), _own(known.failures, document)
    if evidence is known.evidence and failures is known.failures:
        return known
    return msgspec.structs.replace(known, evidence=evidence, failures=failures)


def _own(references: tuple[EvidenceRef, ...], document: EvidenceRef) -> tuple[EvidenceRef, ...]:
    if STAND_IN not in references:
        return references
    return tuple(document if one is STAND_IN else one for one in references)
