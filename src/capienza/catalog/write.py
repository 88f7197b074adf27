"""Offers written in the full form, one JSON object for each line; and the schema of that form."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from capienza.catalog.devices import DATA
from capienza.catalog.forms import (
    FullDocument,
    FullFee,
    FullGpu,
    FullHost,
    FullOffer,
    FullPrice,
)
from capienza.catalog.numbers import plain_number
from capienza.catalog.offer import Document, Fee, GpuClaim, Offer, OfferHost, Price
from capienza.files import write_whole
from capienza.units import GIB, MIB

_GIGABYTES = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,6})?) GB", re.ASCII)


def offer_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of the full form."""
    return msgspec.json.decode((DATA / "offer.schema.json").read_bytes(), type=dict[str, Any])


def write_jsonl(offers: Iterable[Offer], path: Path) -> int:
    """Write `offers` to `path` (or to what it links to) and return how many. The file appears complete or not at all.

    Raises `UnreachableError` when it cannot be written.
    """
    return write_whole(path, lambda file: _write(offers, file))


def _write(offers: Iterable[Offer], file: BinaryIO) -> int:
    encoder = msgspec.json.Encoder()
    count = 0
    for count, offer in enumerate(offers, start=1):  # noqa: B007 - the last count is returned
        file.write(encoder.encode(to_full(offer)) + b"\n")
    return count


def to_full(offer: Offer) -> FullOffer:
    """The full form of an offer; reading it back gives the same offer."""
    document = offer.document
    return FullOffer(
        offer_id=offer.id,
        provider=offer.provider,
        source=document.source if document else None,
        retrieved_at=_text(document.retrieved) if document else None,
        valid_from=_text(document.valid_from) if document else None,
        valid_until=_text(document.valid_until) if document else None,
        document=_document(document) if document else None,
        gpu=_gpu(offer.gpu),
        lots=offer.lots if offer.lots != 1 else None,
        gpus_total=offer.gpus,
        gpus_per_node=offer.gpus_per_node,
        nodes=offer.nodes,
        gpu_link=offer.gpu_link,
        node_link_gbit_s=_number(offer.node_link_gbit_s),
        host=_host(offer.host) if offer.host != OfferHost() else None,
        price=_price(offer.price),
        fees=[_fee(fee) for fee in offer.fees] or None,
        region=offer.region,
        country=offer.country,
        stock=offer.stock,
        stock_checked_at=_text(offer.stock_checked_at),
        notes=offer.notes,
    )


def _document(document: Document) -> FullDocument:
    return FullDocument(id=document.id, version=document.version, retrieved=document.retrieved_text)


def _gpu(claim: GpuClaim) -> FullGpu:
    match = _GIGABYTES.fullmatch(claim.memory_nominal or "")
    nominal_gb = Decimal(match[1]) if match and plain_number(float(match[1])) == match[1] else None
    return FullGpu(
        name_raw=claim.name_raw,
        candidates=list(claim.candidates) or None,
        form_factor=claim.form_factor,  # type: ignore[arg-type]
        memory_nominal_gb=_number(nominal_gb or None),
        memory_nominal=None if nominal_gb else claim.memory_nominal,
        memory_reported_mib=claim.memory_reported_bytes // MIB if claim.memory_reported_bytes else None,
        memory_source=claim.memory_source,
        ecc=claim.ecc,
        share=claim.share,
        mig_profile=claim.mig_profile,
        compute_capability=claim.compute_capability,
        gfx_arch=claim.gfx_arch,
    )


def _host(host: OfferHost) -> FullHost:
    return FullHost(
        vcpus=_number(host.vcpus),
        ram_gib=None if host.ram_bytes is None else host.ram_bytes / GIB,
        disk_gb=None if host.disk_bytes is None else host.disk_bytes / 10**9,
        cpu_arch=host.cpu_arch,  # type: ignore[arg-type]
        os=host.os,  # type: ignore[arg-type]
        driver_version=host.driver_version,
        cuda_max=host.cuda_max,
        rocm=host.rocm,
        managed_application=host.managed_application,
    )


def _price(price: Price) -> FullPrice:
    return FullPrice(
        kind=price.kind,
        amount=f"{price.money.amount:f}" if price.money else None,
        currency=price.money.currency if price.money else None,
        term_hours=_number(price.term_hours),
        usable_hours=_number(price.usable_hours),
        starts_at=_text(price.starts_at),
        ends_at=_text(price.ends_at),
        min_hours=_number(price.min_hours),
        max_hours=_number(price.max_hours),
        billing_step_s=price.billing_step_s,
        interruptible=price.interruptible,
        tax_included=price.tax_included,
        tax_percent=_number(price.tax_percent),
        cancellable=price.cancellable,
        unused_refunded=price.unused_refunded,
    )


def _fee(fee: Fee) -> FullFee:
    return FullFee(
        kind=fee.kind,  # type: ignore[arg-type]
        amount=f"{fee.money.amount:f}",
        unit=fee.unit,
        currency=fee.money.currency,
        included=_number(fee.included),
        month_hours=_number(fee.month_hours),
        billed_when_stopped=fee.billed_when_stopped,
    )


def _number(value: Decimal | None) -> float | None:
    if value is None:
        return None
    return int(value) if value == int(value) else float(value)


def _text(moment: datetime.datetime | None) -> str | None:
    return moment.isoformat() if moment else None
