"""What can be bought: lots of cards for days at a total, or an hourly price. Unknown is None, never zero."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Literal

import msgspec

from capienza.errors import NOWHERE, Place
from capienza.units import Money

PriceKind = Literal["per_gpu_hour", "per_node_hour", "per_offer_hour", "total"]


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """The sheet, page or quote that an offer was read from. `valid_until` is exclusive.

    `retrieved_text` is the date as written, which may be a month; `retrieved` is None when it names no day.
    """

    id: str
    version: str | None = None
    retrieved: datetime.datetime | None = None
    retrieved_text: str | None = None
    valid_from: datetime.datetime | None = None
    valid_until: datetime.datetime | None = None
    source: str | None = None


class GpuClaim(msgspec.Struct, frozen=True, kw_only=True):
    """What the seller says of one GPU. `candidates` are the catalogue keys the name may mean: empty = unknown name.

    Equal claims are one card class: memory is computed once for all offers that share it.
    """

    name_raw: str
    candidates: tuple[str, ...] = ()
    memory_nominal: str | None = None
    memory_reported_bytes: int | None = None
    memory_source: Literal["driver", "seller", "table"] | None = None
    ecc: Literal["on", "off"] | None = None
    share: Literal["whole", "mig", "vgpu", "timeslice"] | None = None
    mig_profile: str | None = None
    form_factor: str | None = None
    compute_capability: str | None = None
    gfx_arch: str | None = None


class OfferHost(msgspec.Struct, frozen=True, kw_only=True):
    """The server around the cards, per node."""

    vcpus: Decimal | None = None
    ram_bytes: int | None = None
    disk_bytes: int | None = None
    cpu_arch: str | None = None
    os: str | None = None
    driver_version: str | None = None
    cuda_max: str | None = None
    rocm: str | None = None
    managed_application: str | None = None


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """`money` None means that the price is unknown. `term_hours` is paid time: 24 x days for a package."""

    kind: PriceKind
    money: Money | None = None
    term_hours: Decimal | None = None
    usable_hours: Decimal | None = None
    starts_at: datetime.datetime | None = None
    ends_at: datetime.datetime | None = None
    min_hours: Decimal | None = None
    max_hours: Decimal | None = None
    billing_step_s: int | None = None
    interruptible: bool | None = None
    tax_included: bool | None = None
    tax_percent: Decimal | None = None
    cancellable: bool | None = None
    unused_refunded: bool | None = None


class Fee(msgspec.Struct, frozen=True, kw_only=True):
    """An extra charge."""

    kind: str
    money: Money
    unit: Literal["once", "per_hour", "per_gb", "per_gb_month", "percent"]
    included: Decimal | None = None
    month_hours: Decimal | None = None
    billed_when_stopped: bool | None = None


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that can be bought. GPUs = `lots` x `cards`; a package's total covers all lots and all days."""

    id: str
    provider: str
    gpu: GpuClaim
    lots: int = 1
    cards: int
    gpus_per_node: int | None = None
    nodes: int | None = None
    gpu_link: Literal["nvlink", "pcie", "xgmi", "none"] | None = None
    node_link_gbit_s: Decimal | None = None
    host: OfferHost = OfferHost()
    price: Price
    fees: tuple[Fee, ...] = ()
    region: str | None = None
    country: str | None = None
    stock: Literal["available", "limited", "none"] | None = None
    stock_checked_at: datetime.datetime | None = None
    document: Document | None = None
    notes: str | None = None
    place: Place = NOWHERE

    @property
    def gpus(self) -> int:
        """All the GPUs of the offer."""
        return self.lots * self.cards
