"""What Vast.ai answers to a search: `{"offers": [...]}` from the API, a list from the command line (`--raw`).

Dollars for the offer and hour; memory in the driver's MiB, which the command line divides by 1000. dph_total holds the
storage of the search, so dph_base is read, and storage is a fee of its own, billed while stopped, for months of 720 h.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from decimal import Decimal

from capienza.catalog.forms import FullFee, FullGpu, FullHost, FullOffer, FullPrice
from capienza.catalog.importers.form import Form, Reader, Source
from capienza.catalog.importers.row import NOT_READ, LeaveOut, Row
from capienza.catalog.importers.said import (
    IN_DOLLARS,
    MEMORY_CONTRADICTS,
    MEMORY_IMPLAUSIBLE,
    NO_GPU,
    PRICE_UNKNOWN,
    STOCK_IS_A_WISH,
)
from capienza.catalog.moments import FIRST_YEAR, LAST_YEAR
from capienza.errors import template

AS_API = template("import.vast-api", "memory is MiB, as the API answers")
AS_CLI = template(
    "import.vast-cli", "memory is MiB divided by 1000, as the command line prints it: it is multiplied again"
)
STORAGE_APART = template(
    "import.vast-storage",
    "dph_total holds the storage of the search: dph_base is read as the price, and storage_cost as a fee by GB and "
    "month of 720 h, billed while stopped",
)
STORAGE_WITHIN = template(
    "import.vast-storage-within",
    "there is no dph_base: dph_total is read, which holds an amount of storage that nothing states",
)
RAM_SHARE = template(
    "import.vast-ram",
    "RAM is the part of the machine's that gpu_frac gives, which is what Vast.ai documents as reserved",
)
FREE = template("import.vast-free", "{column} is 0, which on Vast.ai is a price: nothing is charged for it")

_CLI_BELOW = 1000
"""No GPU has so few MiB, and none has so many thousands of MiB."""
_MONTH_HOURS = 720
_PLACE = re.compile(r".*?, ?(?P<country>[A-Z]{2})", re.ASCII)
_ARCHITECTURES = {"amd64": "x86_64", "x86_64": "x86_64", "arm64": "aarch64", "aarch64": "aarch64"}
_SCORES = ("reliability2", "reliability", "verification", "verified", "hosting_type")


def _reader(source: Source) -> Reader:
    def read(row: Row) -> Iterator[FullOffer]:
        gpus = row.count("num_gpus")
        if not gpus:
            raise LeaveOut(NO_GPU(), "num_gpus")
        name, identity = row.needed("gpu_name"), row.needed("id")
        row.once(IN_DOLLARS(source="Vast.ai"), "dph_total")
        row.once(STOCK_IS_A_WISH(), "rentable")
        base, gpu = _base(row), _gpu(row, name, gpus)
        fees, location = _fees(row, knows_storage=base != "dph_total"), row.text("geolocation")
        country = _PLACE.fullmatch(location) if location else None
        stock = _stock(row)
        is_bid = row.flag("is_bid")
        for column, interruptible in ((base, bool(is_bid)), *((("min_bid", True),) if not is_bid else ())):
            amount = row.amount(column)
            if column == "min_bid" and not Decimal(amount or 0):
                if amount is not None:
                    row.note(PRICE_UNKNOWN(column=column, found=amount), column)
                continue
            yield source.offer(
                row,
                (identity, "interruptible" if interruptible else None),
                provider=source.provider or "vast",
                gpu=gpu,
                gpus=gpus,
                gpus_per_node=gpus,
                gpu_link="nvlink" if gpus > 1 and row.aside("bw_nvlink") else None,
                price=FullPrice(
                    kind="per_offer_hour",
                    amount=amount,
                    currency=None if amount is None else "USD",
                    ends_at=_end(row),
                    interruptible=interruptible,
                ),
                fees=fees or None,
                host=_host(row),
                region=location,
                country=country["country"] if country else None,
                stock=stock,
                stock_checked_at=source.retrieved.isoformat() if stock and source.retrieved else None,
                notes="; ".join(f"{score}: {said[:60]}" for score in _SCORES if (said := _said(row, score))) or None,
            )

    return read


def _said(row: Row, column: str) -> str | None:
    value = row.values.get(column)
    return ("true" if value else "false") if isinstance(value, bool) else row.text(column)


def _base(row: Row) -> str:
    """The column that holds the price of the GPUs alone, where there is one."""
    if row.number("dph_base") is not None:
        row.once(STORAGE_APART(), "dph_total")
        return "dph_base"
    row.once(STORAGE_WITHIN(), "dph_total")
    return "dph_total"


def _gpu(row: Row, name: str, gpus: int) -> FullGpu:
    """One GPU. The total of the offer, where it is given, must be the same figure."""
    one, total = row.number("gpu_ram"), row.number("gpu_total_ram")
    mib, whole = _mib(row, one, "gpu_ram"), _mib(row, total, "gpu_total_ram")
    if mib is not None and whole is not None and abs(mib * gpus - whole) > gpus:
        row.note(
            MEMORY_CONTRADICTS(column="gpu_ram", found=f"{one:f}", other="gpu_total_ram", stated=f"{total:f}"),
            "gpu_ram",
        )
        mib = None
    capability = row.number("compute_cap")
    return FullGpu(
        name_raw=name,
        memory_reported_mib=mib,
        memory_source=None if mib is None else "driver",
        compute_capability=None if not capability else f"{int(capability) // 100}.{int(capability) % 100 // 10}",
    )


def _mib(row: Row, found: Decimal | None, column: str) -> int | None:
    """Whole MiB, whether the API or its command line wrote them."""
    if not found:
        return None
    as_cli = found < _CLI_BELOW
    row.once(AS_CLI() if as_cli else AS_API(), column)
    mib = found * 1000 if as_cli else found
    if mib != int(mib) or not _CLI_BELOW <= mib < 2**24:
        row.note(MEMORY_IMPLAUSIBLE(column=column, found=f"{found:f}", unit="MiB"), column)
        return None
    return int(mib)


def _fees(row: Row, *, knows_storage: bool) -> list[FullFee]:
    """Storage and traffic. A zero here is a price; what dph_total holds of the storage is not known."""
    fees = []
    for column, kind, unit in (
        ("storage_cost", "storage", "per_gb_month"),
        ("inet_up_cost", "egress", "per_gb"),
        ("inet_down_cost", "ingress", "per_gb"),
    ):
        amount = row.amount(column)
        if amount is None:
            continue
        if not Decimal(amount):
            row.once(FREE(column=column), column)
            continue
        is_storage = kind == "storage"
        fees.append(
            FullFee(
                kind=kind,  # type: ignore[arg-type]
                amount=amount,
                unit=unit,  # type: ignore[arg-type]
                currency="USD",
                month_hours=_MONTH_HOURS if is_storage and knows_storage else None,
                billed_when_stopped=True if is_storage else None,
            )
        )
    return fees


def _host(row: Row) -> FullHost:
    """The server as far as the offer has it: RAM goes by the share of the GPUs, and so do the cores it is sure of."""
    ram, share = row.number("cpu_ram"), row.number("gpu_frac")
    ram_gb = ram / 1000 if ram is not None and ram >= _CLI_BELOW * 4 else ram
    written = row.text("cpu_arch")
    architecture = _ARCHITECTURES.get(written.lower()) if written else None
    if written and architecture is None:
        row.note(NOT_READ(column="cpu_arch", found=written[:60]), "cpu_arch")
    reserved = None
    if ram_gb and share and share <= 1:
        row.once(RAM_SHARE(), "cpu_ram")
        reserved = float(ram_gb * share * 10**9 / 1024**3)
    return FullHost(
        vcpus=row.aside("cpu_cores_effective"),
        ram_gib=reserved,
        disk_gb=row.aside("disk_space"),
        cpu_arch=architecture,  # type: ignore[arg-type]
        driver_version=row.text("driver_version"),
        cuda_max=row.text("cuda_max_good"),
    )


def _stock(row: Row) -> str | None:
    rentable, rented = row.flag("rentable"), row.flag("rented")
    if rented or rentable is False:
        return "none"
    return "available" if rentable else None


def _end(row: Row) -> str | None:
    """The moment the host takes the machine back, from seconds since 1970."""
    seconds = row.aside("end_date", 10**11)
    if seconds is None:
        return None
    try:
        end = datetime.datetime.fromtimestamp(int(seconds), datetime.UTC)
    except (ValueError, OverflowError, OSError):
        end = None
    if end is None or not FIRST_YEAR < end.year < LAST_YEAR:
        row.note(NOT_READ(column="end_date", found=f"{seconds:g}"), "end_date")
        return None
    return end.isoformat()


FORM = Form(
    name="vast",
    title="Vast.ai",
    ending=".json",
    marks=frozenset({"dph_total", "dph_base"}),
    paths=(("offers",), ()),
    columns={
        "offer_id": "id",
        "gpu.name_raw": "gpu_name",
        "gpu.memory_reported_mib": "gpu_ram",
        "gpu.memory_total": "gpu_total_ram",
        "gpu.compute_capability": "compute_cap",
        "gpus_total": "num_gpus",
        "gpu_link": "bw_nvlink",
        "price.amount": "dph_base",
        "price.total": "dph_total",
        "price.bid": "min_bid",
        "price.interruptible": "is_bid",
        "price.ends_at": "end_date",
        "fees.storage": "storage_cost",
        "fees.egress": "inet_up_cost",
        "fees.ingress": "inet_down_cost",
        "host.vcpus": "cpu_cores_effective",
        "host.ram_gib": "cpu_ram",
        "host.share": "gpu_frac",
        "host.disk_gb": "disk_space",
        "host.cpu_arch": "cpu_arch",
        "host.driver_version": "driver_version",
        "host.cuda_max": "cuda_max_good",
        "region": "geolocation",
        "stock": "rentable",
        "stock.rented": "rented",
        **{f"notes.{score}": score for score in _SCORES},
    },
    reader=_reader,
)
