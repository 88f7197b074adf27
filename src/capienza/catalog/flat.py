"""From the flat form that people write to the full form: GPUs = lots x cards, paid hours = 24 x days."""

from __future__ import annotations

import datetime
import re

from capienza.catalog.forms import (
    FlatDocument,
    FlatFee,
    FlatHost,
    FlatOffer,
    FullDocument,
    FullFee,
    FullGpu,
    FullHost,
    FullOffer,
    FullPrice,
)
from capienza.catalog.moments import MONTH, parse_day, parse_moment
from capienza.catalog.notes import Notes, Path
from capienza.catalog.numbers import exact, plain_number
from capienza.errors import Message, template, with_suggestion
from capienza.units import GIB, MIB, Money, QuantityError, meant_money, meant_size, parse_money, parse_size

NOT_MONEY = template(
    "catalog.not-money",
    "expected money such as 47.14 USD, got {found}",
    "No sign and no thousands mark; the currency is three capital letters.",
)
NOT_SIZE = template(
    "catalog.not-size", "expected a size such as 64 GiB, got {found}", "Write the number, a space and the unit."
)
NOT_MEBIBYTES = template(
    "catalog.not-mebibytes",
    "a driver reports whole MiB, got {found}",
    "Copy it as `nvidia-smi --query-gpu=memory.total --format=csv` prints it, such as 24564 MiB.",
)
NOT_PERCENT = template(
    "catalog.not-percent", "expected a number of percent such as 22, got {found}", "Write the number."
)
TWO_PRICES = template(
    "catalog.two-prices",
    "a total and an hourly price contradict each other",
    "Keep the one that the document states.",
)
PER_MISSING = template(
    "catalog.per-missing",
    "nothing says what the hourly price pays for: one GPU, one node or the whole offer of {gpus} GPUs",
    "Add per: gpu, node or offer.",
)
PER_WITHOUT_HOURLY = template(
    "catalog.per-without-hourly", "per: {found} has no hourly price to belong to", "Add hourly, or leave per out."
)
TOO_MANY_GPUS = template(
    "catalog.too-many-gpus", "{found} GPUs are more than one offer can hold", "Correct lots or cards."
)
NOT_A_DAY = template(
    "catalog.not-a-day",
    "expected a date such as 2026-12-07, or a date-time with an offset, got {found}",
    "Write year-month-day.",
)
DAY_IN_UTC = template(
    "catalog.day-in-utc",
    "without a card the bare date {found} is read as a whole day in UTC",
    "`decide` and `plan` read it in the time zone of the card, where that states one. Where the hour matters, write "
    "the time and the offset.",
)
DATE_NOT_READ = template(
    "catalog.date-not-read", "{found} is not a date, so the age of the document is not known", "Write year-month-day."
)

MAX_GPUS = 1_000_000

FLAT_PATHS: dict[Path, tuple[Path, ...]] = {
    ("gpu",): (("gpu",),),
    ("gpu", "name_raw"): (("gpu",),),
    ("gpu", "mig_profile"): (("mig_profile",), ("gpu",)),
    ("gpu", "share"): (("share",), ("gpu",)),
    ("gpu", "memory_nominal"): (("memory",),),
    ("price", "amount"): (("total",), ("hourly",)),
    ("price", "currency"): (("total",), ("hourly",)),
    ("price", "term_hours"): (("days",), ("total",)),
    ("price", "usable_hours"): (("usable_hours",),),
    ("price", "min_hours"): (("min_hours",),),
    ("price", "ends_at"): (("ends",),),
    ("valid_until",): (("document", "valid_until"),),
}
"""Where the value of a full path stands in the flat form, in order of preference."""

_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?", re.ASCII)
_KIND = {"gpu": "per_gpu_hour", "node": "per_node_hour", "offer": "per_offer_hour", None: "per_offer_hour"}


def to_full(flat: FlatOffer, notes: Notes, zone: datetime.tzinfo | None) -> FullOffer:
    """The same offer in the full form. A bare date is a whole day in `zone`, else in UTC with a finding."""
    gpus = flat.lots * flat.cards
    if gpus > MAX_GPUS:
        notes.problem(TOO_MANY_GPUS(found=gpus), "cards")
    document = flat.document
    days = _Days(notes, zone)
    return FullOffer(
        offer_id=flat.id,
        provider=flat.provider,
        source=document.source if document else None,
        retrieved_at=days.retrieved(document.retrieved) if document else None,
        valid_from=days.first(document.valid_from, "document", "valid_from") if document else None,
        valid_until=days.end(document.valid_until, "document", "valid_until") if document else None,
        document=_document(document) if document else None,
        gpu=_gpu(flat, notes),
        lots=flat.lots,
        gpus_total=gpus,
        gpus_per_node=flat.gpus_per_node,
        nodes=flat.nodes,
        gpu_link=flat.gpu_link,
        node_link_gbit_s=flat.node_link_gbit_s,
        host=_host(flat.host, notes) if flat.host else None,
        price=_price(flat, gpus, days, notes),
        fees=[_fee(fee, notes, index) for index, fee in enumerate(flat.fees)] if flat.fees else None,
        region=flat.region,
        country=flat.country,
        stock=flat.stock,
        stock_checked_at=days.first(flat.stock_checked, "stock_checked"),
        notes=flat.notes,
    )


def _document(flat: FlatDocument) -> FullDocument:
    return FullDocument(id=flat.id, version=flat.version, retrieved=flat.retrieved)


def _gpu(flat: FlatOffer, notes: Notes) -> FullGpu:
    reported = None
    if flat.reported is not None:
        size = _size(flat.reported, notes, "reported")
        if size is not None and (size % MIB or not size):
            notes.problem(NOT_MEBIBYTES(found=flat.reported), "reported")
        reported = (size or 0) // MIB or None
    return FullGpu(
        name_raw=flat.gpu,
        form_factor=flat.form_factor,
        memory_nominal=flat.memory,
        memory_reported_mib=reported,
        memory_source="driver" if reported else None,
        ecc=flat.ecc,
        share=flat.share,
        mig_profile=flat.mig_profile,
    )


def _price(flat: FlatOffer, gpus: int, days: _Days, notes: Notes) -> FullPrice:
    if flat.total is not None and flat.hourly is not None:
        notes.problem(TWO_PRICES(), "hourly")
    if flat.per is not None and flat.hourly is None:
        notes.problem(PER_WITHOUT_HOURLY(found=flat.per), "per")
    if flat.hourly is not None and flat.per is None and gpus > 1:
        notes.problem(PER_MISSING(gpus=gpus), "hourly")
    starts, ends = days.first(flat.starts, "starts"), days.end(flat.ends, "ends")
    written = flat.total if flat.total is not None else flat.hourly
    money = _money(written, notes, "hourly" if flat.total is None else "total") if written is not None else None
    is_package = flat.hourly is None and (flat.total is not None or flat.days is not None or bool(starts and ends))
    return FullPrice(
        kind="total" if is_package else _KIND[flat.per],  # type: ignore[arg-type]
        amount=f"{money.amount:f}" if money else None,
        currency=money.currency if money else None,
        term_hours=_term(flat.days, starts, ends) if is_package else _days_in_hours(flat.days),
        usable_hours=flat.usable_hours,
        starts_at=starts,
        ends_at=ends,
        min_hours=flat.min_hours,
        max_hours=flat.max_hours,
        billing_step_s=flat.billing_step_s,
        interruptible=flat.interruptible,
        tax_included=flat.tax_included,
        tax_percent=flat.tax_percent,
        cancellable=flat.cancellable,
        unused_refunded=flat.unused_refunded,
    )


def _term(days: float | None, starts: str | None, ends: str | None) -> float | None:
    """Paid hours of a package: 24 for each day, or what the dates hold.

    The dates of an hourly price say when the GPUs can be used, not for how long they are paid.
    """
    if days is not None:
        return _days_in_hours(days)
    first, end = parse_moment(starts or ""), parse_moment(ends or "")
    hours = (end - first).total_seconds() / 3600 if first and end else None
    return hours if hours and hours > 0 else None


def _days_in_hours(days: float | None) -> float | None:
    return None if days is None else float((exact(days) or 0) * 24)


def not_money(text: str) -> Message:
    """What is said of a text that is not money."""
    return with_suggestion(NOT_MONEY(found=text[:64]), meant_money(text))


def not_size(text: str) -> Message:
    """What is said of a text that is not a size."""
    return with_suggestion(NOT_SIZE(found=text[:64]), meant_size(text))


def _money(text: str, notes: Notes, *path: str | int) -> Money | None:
    try:
        return parse_money(text)
    except QuantityError:
        notes.problem(not_money(text), *path)
        return None


def _size(text: str, notes: Notes, *path: str | int) -> int | None:
    try:
        return parse_size(text)
    except QuantityError:
        notes.problem(not_size(text), *path)
        return None


def _host(flat: FlatHost, notes: Notes) -> FullHost:
    ram = _size(flat.ram, notes, "host", "ram") if flat.ram is not None else None
    disk = _size(flat.disk, notes, "host", "disk") if flat.disk is not None else None
    return FullHost(
        vcpus=flat.vcpus,
        ram_gib=None if ram is None else ram / GIB,
        disk_gb=None if disk is None else disk / 10**9,
        cpu_arch=flat.cpu_arch,
        os=flat.os,
        driver_version=flat.driver_version,
        cuda_max=flat.cuda_max,
        rocm=flat.rocm,
        managed_application=flat.managed_application,
    )


def _fee(flat: FlatFee, notes: Notes, index: int) -> FullFee:
    amount, currency = "0", None
    written = flat.amount if isinstance(flat.amount, str) else plain_number(flat.amount)
    if flat.unit == "percent":
        amount = written.removesuffix("%").strip()
        if not _NUMBER.fullmatch(amount):
            notes.problem(NOT_PERCENT(found=written), "fees", index, "amount")
            amount = "0"
    elif money := _money(written, notes, "fees", index, "amount"):
        amount, currency = f"{money.amount:f}", money.currency
    return FullFee(
        kind=flat.kind,
        amount=amount,
        unit=flat.unit,
        currency=currency,
        included=flat.included,
        month_hours=flat.month_hours,
        billed_when_stopped=flat.billed_when_stopped,
    )


class _Days:
    """Reads dates: a bare one is a whole day, so it begins at its own first moment and ends at the next day's."""

    def __init__(self, notes: Notes, zone: datetime.tzinfo | None) -> None:
        self.notes = notes
        self.zone = zone

    def first(self, text: str | None, *path: str | int) -> str | None:
        return self._read(text, 0, path)

    def end(self, text: str | None, *path: str | int) -> str | None:
        return self._read(text, 1, path)

    def retrieved(self, text: str | None) -> str | None:
        """The first moment of the date; a month or other text stays text."""
        if text is None:
            return None
        if parse_moment(text):
            return text
        if day := parse_day(text, self.zone or datetime.UTC):
            return day[0].isoformat()
        if not MONTH.fullmatch(text):
            self.notes.finding(DATE_NOT_READ(found=text[:40]), "document", "retrieved")
        return None

    def _read(self, text: str | None, which: int, path: tuple[str | int, ...]) -> str | None:
        if text is None or parse_moment(text):
            return text
        day = parse_day(text, self.zone or datetime.UTC)
        if day is None:
            self.notes.problem(NOT_A_DAY(found=text), *path)
            return None
        if self.zone is None:
            self.notes.finding(DAY_IN_UTC(found=text), *path)
        return day[which].isoformat()
