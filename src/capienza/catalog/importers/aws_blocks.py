"""AWS EC2 Capacity Blocks, as `describe-capacity-block-offerings` answers: a total, paid at once, between two dates.

Instances begin to end 30 minutes before the block does, UltraServers have to be left 60 minutes before: those hours
are paid and cannot be used. A block cannot be changed or cancelled.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Iterator
from decimal import Decimal

from capienza.catalog.devices import Row as TableRow
from capienza.catalog.devices import table
from capienza.catalog.forms import FullGpu, FullHost, FullOffer, FullPrice
from capienza.catalog.importers.form import Form, Reader, Source
from capienza.catalog.importers.row import LeaveOut, Row
from capienza.catalog.moments import parse_moment
from capienza.errors import template

UNKNOWN_TYPE = template("import.aws-unknown-type", "the instance type {found} is not in the table of types with GPUs")
NO_GPUS = template("import.aws-no-gpu", "the instance type {found} has no GPU but another accelerator")
FROM_TABLE = template(
    "import.aws-table",
    "GPU, count, link and server are not in the answer: they come from the table of instance types, with its sources",
)
ENDS_EARLY = template(
    "import.aws-ends-early",
    "instances begin to end {minutes} minutes before the block does: these are paid and not usable",
)
FINAL = template("import.aws-final", "a block is paid at once, and cannot be changed or cancelled")
HOURS_DIFFER = template(
    "import.aws-hours-differ",
    "from StartDate to EndDate are {hours} h, and CapacityBlockDurationHours says {stated}: the dates count",
)
NO_TERM = template(
    "import.aws-no-term", "neither the dates nor CapacityBlockDurationHours say how long the block lasts"
)
NOT_A_MOMENT = template("import.aws-not-a-moment", "{column} is {found}, which is no date-time with an offset")
NO_CURRENCY = template("import.aws-no-currency", "UpfrontFee has no CurrencyCode, so it is no price")

_EARLY_MINUTES, _EARLY_ULTRASERVER_MINUTES = 30, 60


@functools.cache
def instance_types() -> dict[str, TableRow]:
    """What the shipped table says of each instance type."""
    return {row["instance_type"]: row for row in table("aws_instances.csv")}


def _reader(source: Source) -> Reader:
    def read(row: Row) -> Iterator[FullOffer]:
        name = row.needed("InstanceType")
        kind = instance_types().get(name)
        if kind is None:
            raise LeaveOut(UNKNOWN_TYPE(found=name[:60]), "InstanceType")
        if not kind["gpu_key"]:
            raise LeaveOut(NO_GPUS(found=name), "InstanceType")
        nodes, per_node = row.count("InstanceCount") or 1, int(kind["gpus"])
        amount, currency = row.amount("UpfrontFee"), row.text("CurrencyCode")
        if amount is not None and currency is None:
            raise LeaveOut(NO_CURRENCY(), "CurrencyCode")
        starts, ends = _moment(row, "StartDate"), _moment(row, "EndDate")
        term = _term(row, starts, ends)
        early = _EARLY_ULTRASERVER_MINUTES if kind["ultraserver"] or row.text("UltraserverType") else _EARLY_MINUTES
        row.once(FROM_TABLE(), "InstanceType")
        row.once(ENDS_EARLY(minutes=early), "EndDate")
        row.once(FINAL(), "UpfrontFee")
        yield source.offer(
            row,
            (row.needed("CapacityBlockOfferingId"),),
            provider=source.provider or "aws",
            gpu=FullGpu(name_raw=kind["gpu_name"], candidates=[kind["gpu_key"]]),
            gpus=nodes * per_node,
            gpus_per_node=per_node,
            nodes=nodes,
            gpu_link=kind["gpu_link"] or None,
            price=FullPrice(
                kind="total",
                amount=amount,
                currency=currency,
                term_hours=float(term),
                usable_hours=float(max(term - Decimal(early) / 60, Decimal("0.01"))),
                starts_at=starts.isoformat() if starts else None,
                ends_at=ends.isoformat() if ends else None,
                interruptible=False,
                cancellable=False,
                unused_refunded=False,
            ),
            host=FullHost(
                vcpus=int(kind["vcpus"]),
                ram_gib=int(kind["ram_gib"]),
                cpu_arch=kind["cpu_arch"],  # type: ignore[arg-type]
            ),
            region=row.text("AvailabilityZone"),
        )

    return read


def _moment(row: Row, column: str) -> datetime.datetime | None:
    text = row.text(column)
    moment = parse_moment(text) if text else None
    if text and moment is None:
        raise LeaveOut(NOT_A_MOMENT(column=column, found=text[:40]), column)
    return moment


def _term(row: Row, starts: datetime.datetime | None, ends: datetime.datetime | None) -> Decimal:
    """Paid hours: what lies between the dates, else the duration that is stated."""
    stated = row.number("CapacityBlockDurationHours")
    if starts is None or ends is None:
        if not stated:
            raise LeaveOut(NO_TERM(), "CapacityBlockDurationHours")
        return stated
    hours = round(Decimal(int((ends - starts).total_seconds())) / 3600, 4)
    if stated and abs(stated - hours) > Decimal("0.01"):
        row.note(HOURS_DIFFER(hours=f"{hours:f}", stated=f"{stated:f}"), "CapacityBlockDurationHours")
    return max(hours, Decimal("0.01"))


FORM = Form(
    name="aws-capacity-blocks",
    title="AWS EC2 Capacity Blocks",
    ending=".json",
    marks=frozenset({"CapacityBlockOfferingId", "UpfrontFee"}),
    paths=(("CapacityBlockOfferings",),),
    columns={
        "offer_id": "CapacityBlockOfferingId",
        "gpu.name_raw": "InstanceType",
        "gpus_total": "InstanceCount",
        "price.amount": "UpfrontFee",
        "price.currency": "CurrencyCode",
        "price.term_hours": "CapacityBlockDurationHours",
        "price.starts_at": "StartDate",
        "price.ends_at": "EndDate",
        "region": "AvailabilityZone",
        "ultraserver": "UltraserverType",
    },
    reader=_reader,
)
