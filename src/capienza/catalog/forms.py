"""The two written forms of an offer, as types: the full schema and the flat form that people write.

Both hold what was written, not yet checked against itself; `convert` does that. Money is decimal text, moments are
RFC 3339 text, sizes of the full form carry their unit in the name and those of the flat form in the text ("64 GiB").
A key that is absent, null or (in CSV) empty is not stated.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

MAX_COUNT = 1_000_000

Word = Annotated[str, Meta(title="line", min_length=1, max_length=200, pattern=r"^(?!.*[\x00-\x1f])")]
Text = Annotated[str, Meta(title="text", max_length=4000)]
Amount = Annotated[str, Meta(title="amount", pattern=r"^[0-9]+(\.[0-9]+)?$", max_length=40)]
Currency = Annotated[str, Meta(title="currency", pattern="^[A-Z]{3}$")]
Country = Annotated[str, Meta(title="country", pattern="^[A-Z]{2}$")]
Capability = Annotated[str, Meta(title="capability", pattern=r"^[0-9]{1,2}\.[0-9]$")]
Gfx = Annotated[str, Meta(title="gfx", pattern="^gfx[0-9a-f]+$", max_length=40)]
MigProfile = Annotated[str, Meta(title="mig profile", pattern=r"^[0-9]g\.[0-9]{1,4}gb(\+.*)?$", max_length=40)]
Moment = Annotated[str, Meta(title="moment", max_length=40, extra_json_schema={"format": "date-time"})]
Day = Annotated[str, Meta(title="day or moment", max_length=40)]
Money = Annotated[str, Meta(title="money", max_length=64)]
FeeAmount = Annotated[str, Meta(title="text", max_length=64)]
Size = Annotated[str, Meta(title="size", max_length=64)]
Count = Annotated[int, Meta(title="count", ge=1, le=MAX_COUNT)]
Mebibytes = Annotated[int, Meta(title="count", ge=1, le=2**24)]
Positive = Annotated[float, Meta(title="positive", gt=0, le=1e9)]
DayCount = Annotated[float, Meta(title="positive", gt=0, le=36_500)]
HostSize = Annotated[float, Meta(title="quantity", ge=0, le=1e9)]
Quantity = Annotated[float, Meta(title="quantity", ge=0, le=1e12)]
Percent = Annotated[float, Meta(title="percent", ge=0, le=100)]

FormFactor = Literal["pcie", "sxm", "nvl", "oam", "superchip", "integrated"]
Ecc = Literal["on", "off"]
Share = Literal["whole", "mig", "vgpu", "timeslice"]
Link = Literal["nvlink", "pcie", "xgmi", "none"]
Architecture = Literal["x86_64", "aarch64"]
System = Literal["linux", "windows"]
Stock = Literal["available", "limited", "none"]
FeeKind = Literal["setup", "storage", "egress", "ingress", "ip", "support", "other"]
FeeUnit = Literal["once", "per_hour", "per_gb", "per_gb_month", "percent"]
PriceKind = Literal["per_gpu_hour", "per_node_hour", "per_offer_hour", "total"]


class _Form(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Base: every key is checked, and a key left at its default is not written."""


class FullDocument(_Form, kw_only=True):
    """The sheet or quote. `retrieved` is the date as written, `retrieved_at` of the offer the moment it means."""

    id: Word
    version: Word | None = None
    retrieved: Word | None = None


class FullGpu(_Form, kw_only=True):
    """What the seller says of one GPU; `memory_nominal_gb` is the advertised number, `memory_nominal` other text."""

    name_raw: Word
    key: Word | None = None
    candidates: Annotated[list[Word], Meta(max_length=20)] | None = None
    form_factor: FormFactor | None = None
    memory_nominal_gb: Positive | None = None
    memory_nominal: Text | None = None
    memory_reported_mib: Mebibytes | None = None
    memory_source: Literal["driver", "seller", "table"] | None = None
    ecc: Ecc | None = None
    share: Share | None = None
    mig_profile: MigProfile | None = None
    compute_capability: Capability | None = None
    gfx_arch: Gfx | None = None


class FullHost(_Form, kw_only=True):
    """The server around the cards, per node."""

    vcpus: Positive | None = None
    ram_gib: HostSize | None = None
    disk_gb: HostSize | None = None
    cpu_arch: Architecture | None = None
    os: System | None = None
    driver_version: Word | None = None
    cuda_max: Word | None = None
    rocm: Word | None = None
    managed_application: Text | None = None


class FullPrice(_Form, kw_only=True):
    """No `amount`: the price is not known. `term_hours` is paid time, needed for a total."""

    kind: PriceKind
    amount: Amount | None = None
    currency: Currency | None = None
    term_hours: Positive | None = None
    usable_hours: Positive | None = None
    starts_at: Moment | None = None
    ends_at: Moment | None = None
    min_hours: Quantity | None = None
    max_hours: Quantity | None = None
    billing_step_s: Count | None = None
    interruptible: bool | None = None
    tax_included: bool | None = None
    tax_percent: Percent | None = None
    cancellable: bool | None = None
    unused_refunded: bool | None = None


class FullFee(_Form, kw_only=True):
    """An extra charge, in the currency of the price unless it names its own."""

    kind: FeeKind
    amount: Amount
    unit: FeeUnit
    currency: Currency | None = None
    included: Quantity | None = None
    month_hours: Positive | None = None
    billed_when_stopped: bool | None = None


class FullOffer(_Form, kw_only=True):
    """The full schema. `gpus_total` covers all `lots`; for MIG and vGPU it counts instances."""

    offer_id: Word
    provider: Word
    source: Text | None = None
    retrieved_at: Moment | None = None
    valid_from: Moment | None = None
    valid_until: Moment | None = None
    document: FullDocument | None = None
    gpu: FullGpu
    lots: Count | None = None
    gpus_total: Count
    gpus_per_node: Count | None = None
    nodes: Count | None = None
    gpu_link: Link | None = None
    node_link_gbit_s: Positive | None = None
    host: FullHost | None = None
    price: FullPrice
    fees: Annotated[list[FullFee], Meta(max_length=100)] | None = None
    region: Word | None = None
    country: Country | None = None
    stock: Stock | None = None
    stock_checked_at: Moment | None = None
    notes: Text | None = None


class FlatDocument(_Form, kw_only=True):
    """The sheet or quote, with its dates; a bare date is a whole day."""

    id: Word
    version: Word | None = None
    retrieved: Word | None = None
    valid_from: Day | None = None
    valid_until: Day | None = None
    source: Text | None = None


class FlatHost(_Form, kw_only=True):
    """The server around the cards, per node; sizes carry their unit."""

    vcpus: Positive | None = None
    ram: Size | None = None
    disk: Size | None = None
    cpu_arch: Architecture | None = None
    os: System | None = None
    driver_version: Word | None = None
    cuda_max: Word | None = None
    rocm: Word | None = None
    managed_application: Text | None = None


class FlatFee(_Form, kw_only=True):
    """An extra charge: `amount` is money, or a bare number when the unit is percent."""

    kind: FeeKind
    amount: FeeAmount | Percent
    unit: FeeUnit
    included: Quantity | None = None
    month_hours: Positive | None = None
    billed_when_stopped: bool | None = None


class FlatOffer(_Form, kw_only=True):
    """The form people write. GPUs = `lots` x `cards`; `total` covers all lots for all `days`; paid = 24 h x days."""

    id: Word
    provider: Word
    gpu: Word
    memory: Text | None = None
    reported: Size | None = None
    ecc: Ecc | None = None
    share: Share | None = None
    mig_profile: MigProfile | None = None
    form_factor: FormFactor | None = None
    lots: Count = 1
    cards: Count
    gpus_per_node: Count | None = None
    nodes: Count | None = None
    gpu_link: Link | None = None
    node_link_gbit_s: Positive | None = None
    days: DayCount | None = None
    total: Money | None = None
    hourly: Money | None = None
    per: Literal["gpu", "node", "offer"] | None = None
    usable_hours: Positive | None = None
    starts: Day | None = None
    ends: Day | None = None
    min_hours: Quantity | None = None
    max_hours: Quantity | None = None
    billing_step_s: Count | None = None
    interruptible: bool | None = None
    tax_included: bool | None = None
    tax_percent: Percent | None = None
    cancellable: bool | None = None
    unused_refunded: bool | None = None
    fees: Annotated[list[FlatFee], Meta(max_length=100)] | None = None
    host: FlatHost | None = None
    document: FlatDocument | None = None
    region: Word | None = None
    country: Country | None = None
    stock: Stock | None = None
    stock_checked: Day | None = None
    notes: Text | None = None


FORMS: tuple[type[_Form], ...] = (FlatOffer, FullOffer)
TEXT_KEYS = frozenset(
    {"version", "retrieved", "memory", "memory_nominal", "driver_version", "cuda_max", "rocm", "compute_capability"}
)
"""Keys whose value is text even when it looks like a number: YAML users write `version: 3` and `cuda_max: 12.8`."""
