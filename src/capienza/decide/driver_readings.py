"""What records say that the driver reports for a GPU: the capacity that peaks are compared with (DESIGN rule 3).

A reading of the very offer is its capacity, as `reported` in its offer is: the highest rank counts, and of several of
that rank the least for a fit, the most for an exclusion. A reading of the same GPU elsewhere bounds a fit alone, where
it is the least that is known: another GPU of the name may report more. CUDA totals go the same way.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from capienza.catalog.basis import BY_DRIVER, CONTRADICTED
from capienza.catalog.capacity import capacity_of, contradicts
from capienza.catalog.devices import load_devices
from capienza.catalog.offer import GpuClaim, Offer
from capienza.decide.case import Evidence, Sizing, SizingFor
from capienza.decide.documents import READ
from capienza.decide.need import gpu_names
from capienza.decide.verdict import EvidenceRef, cite
from capienza.errors import Message, Template, template
from capienza.evidence.claims import ANY, find
from capienza.evidence.rank import OFFER_DOCUMENT, rank
from capienza.evidence.record import Record
from capienza.units import MIB

REPORTED = "gpu_reported_bytes"
"""What the driver gives as the total of one GPU."""
CUDA_TOTAL = "cuda_total_bytes"
"""What a program sees as the total of one GPU; less than the driver's."""

OF_OFFER = template("decide.capacity-of-offer", "{mib} MiB reported by the driver of this offer, says {record}")
OF_GPU = template("decide.capacity-of-gpu", "{mib} MiB reported by the driver of such a GPU, says {record}")
COMPARED = template(
    "decide.capacity-read-here",
    "record {record} states what a GPU of this offer has: readings are compared with {total_bytes}",
)
COMPARED_ELSEWHERE = template(
    "decide.capacity-read-elsewhere",
    "record {record} states what such a GPU has elsewhere: readings are compared with {total_bytes}",
)
UNBELIEVED = template(
    "decide.capacity-unbelieved",
    "record {record} states that the driver reports {total_bytes}, which no GPU of this name does",
    "find out which GPU that machine has",
)


class _Reading(NamedTuple):
    """One statement; `record` None: the offer's own."""

    total_bytes: int
    rank: int
    record: Record | None


def read_sizing(offer: Offer, gpus: int, evidence: Evidence, sizing_for: SizingFor) -> Sizing:
    """The sizing of an offer, with the capacity that records tell of its GPU; `gpus` are those of one copy."""
    records = evidence.about(REPORTED, CUDA_TOTAL)
    if not records:
        return sizing_for(offer.gpu, gpus)
    here = [record for record in records if _is_here(record, offer)]
    elsewhere = [record for record in records if _is_elsewhere(record, offer)]
    notes = [*evidence.aside(REPORTED, CUDA_TOTAL), *(why for one in here for why in evidence.weak.get(one.id, ()))]
    here, elsewhere = ([one for one in some if one.id not in evidence.weak] for some in (here, elsewhere))
    sizing = _reported(offer, gpus, here, elsewhere, sizing_for)
    sizing = _with_cuda_total(sizing, here, elsewhere)
    return msgspec.structs.replace(sizing, capacity_notes=(*sizing.capacity_notes, *notes))


def _reported(offer: Offer, gpus: int, here: list[Record], elsewhere: list[Record], sizing_for: SizingFor) -> Sizing:
    own = offer.gpu.memory_reported_bytes if offer.gpu.memory_source == "driver" else None
    stated = [*_readings(here, REPORTED, offer.id)]
    if stated and own is not None:
        stated.append(_Reading(own, OFFER_DOCUMENT, None))
    top = [one for one in stated if one.rank == max(other.rank for other in stated)]
    base = sizing_for(offer.gpu, gpus)
    if any(one.record for one in top):
        return _of_offer(offer, gpus, top, sizing_for)
    found = _readings(elsewhere, REPORTED, offer.id)
    if not found or own is not None or base.capacity is None or contradicts(offer.gpu):
        return base
    least, known = min(found, key=_order), base.capacity.smallest_bytes
    return base if known is not None and known <= least.total_bytes else _of_gpu(base, offer, gpus, least, sizing_for)


def _of_offer(offer: Offer, gpus: int, top: list[_Reading], sizing_for: SizingFor) -> Sizing:
    least, most = min(top, key=_order), max(top, key=_order)
    claims = [_claim(offer, one) for one in (least, most)]
    sizing = sizing_for(claims[0], gpus)
    named = next(one.record for one in (least, *top) if one.record)
    if sizing.capacity is None:
        return sizing
    if not all(map(_is_believed, claims)):
        capacity = msgspec.structs.replace(
            sizing.capacity, smallest_bytes=None, smallest_basis=CONTRADICTED(), cuda_total_bytes=None
        )
        return _noted(msgspec.structs.replace(sizing, capacity=capacity), UNBELIEVED, named, least.total_bytes)
    capacity = msgspec.structs.replace(
        sizing.capacity,
        smallest_bytes=least.total_bytes,
        largest_bytes=most.total_bytes,
        largest_basis=_basis(most, OF_OFFER),
        smallest_basis=_basis(least, OF_OFFER),
    )
    return _noted(msgspec.structs.replace(sizing, capacity=capacity), COMPARED, named, least.total_bytes)


def _of_gpu(base: Sizing, offer: Offer, gpus: int, least: _Reading, sizing_for: SizingFor) -> Sizing:
    """The least that is known bounds a fit; what excludes stays what the name allows."""
    claim = _claim(offer, least)
    sizing = sizing_for(claim, gpus)
    assert least.record is not None
    assert base.capacity is not None
    if sizing.capacity is None or not _is_believed(claim):
        return _noted(base, UNBELIEVED, least.record, least.total_bytes)
    capacity = msgspec.structs.replace(
        sizing.capacity,
        smallest_bytes=least.total_bytes,
        largest_bytes=base.capacity.largest_bytes,
        largest_basis=base.capacity.largest_basis,
        smallest_basis=_basis(least, OF_GPU),
        cuda_total_bytes=base.capacity.cuda_total_bytes or sizing.capacity.cuda_total_bytes,
    )
    return _noted(
        msgspec.structs.replace(sizing, capacity=capacity), COMPARED_ELSEWHERE, least.record, least.total_bytes
    )


def _claim(offer: Offer, reading: _Reading) -> GpuClaim:
    """What the offer would claim if it stated the reading itself."""
    return msgspec.structs.replace(offer.gpu, memory_reported_bytes=reading.total_bytes, memory_source="driver")


def _is_believed(claim: GpuClaim) -> bool:
    """May a GPU of the name report that much? Of one that the catalogue does not know nothing speaks against it."""
    known = tuple(key for key in claim.candidates if key in load_devices())
    return capacity_of(msgspec.structs.replace(claim, candidates=known)).smallest_bytes is not None


def _with_cuda_total(sizing: Sizing, here: list[Record], elsewhere: list[Record]) -> Sizing:
    """The CUDA total that records state; one above what the driver reports is none."""
    capacity = sizing.capacity
    if capacity is None:
        return sizing
    stated = [*_readings(here, CUDA_TOTAL, None)]
    known = None
    if not stated:
        stated, known = [*_readings(elsewhere, CUDA_TOTAL, None)], capacity.cuda_total_bytes
    most = capacity.smallest_bytes
    believed = [one for one in stated if one.record and (most is None or one.total_bytes <= most)]
    least = min(believed, key=_order, default=None)
    if least is None or least.record is None or (known is not None and known <= least.total_bytes):
        return sizing
    capacity = msgspec.structs.replace(capacity, cuda_total_bytes=least.total_bytes)
    said = COMPARED if least.record in here else COMPARED_ELSEWHERE
    return _noted(msgspec.structs.replace(sizing, capacity=capacity), said, least.record, least.total_bytes)


def _noted(sizing: Sizing, said: Template, record: Record, total_bytes: int) -> Sizing:
    """The sizing with what is to be said of it, and the record that it rests on."""
    note: Message = said(record=record.id[:12], total_bytes=total_bytes)
    readings: tuple[EvidenceRef, ...] = (*sizing.readings, cite(record))
    return msgspec.structs.replace(sizing, readings=readings, capacity_notes=(*sizing.capacity_notes, note))


def _readings(records: Iterable[Record], quantity: str, offer: str | None) -> list[_Reading]:
    return [
        _Reading(claim.value, rank(record, offer), record)
        for record in records
        for claim in find(record, quantity)
        if isinstance(claim.value, int) and claim.value > 0
    ]


def _order(reading: _Reading) -> tuple[int, str]:
    return reading.total_bytes, reading.record.id if reading.record else ""


def _basis(reading: _Reading, said: Template) -> Message:
    mib = reading.total_bytes // MIB
    return said(mib=mib, record=reading.record.id[:12]) if reading.record else BY_DRIVER(mib=mib)


def _is_here(record: Record, offer: Offer) -> bool:
    """Does it state what this very offer has? One that names another GPU tells of a machine that is not as sold."""
    scope = record.scope
    return (
        _states(record)
        and scope.offer == offer.id
        and scope.provider in (None, offer.provider)
        and (scope.gpu in (None, ANY) or scope.gpu in gpu_names(offer.gpu))
    )


def _is_elsewhere(record: Record, offer: Offer) -> bool:
    """Does it speak of such a GPU, where the name means but one?"""
    return _states(record) and record.scope.offer != offer.id and (record.scope.gpu,) == gpu_names(offer.gpu)


def _states(record: Record) -> bool:
    return record.kind == "document" or (record.kind == "measurement" and record.method in READ)
