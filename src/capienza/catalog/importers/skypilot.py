"""SkyPilot's catalogue, one vms.csv for each seller: prices in dollars for the instance and hour.

The number called SizeInMiB is three things: on Vast the driver's MiB of all GPUs together, on Lambda the nominal GB
of one GPU times 1024, on RunPod the GB of one GPU. So the seller must be known, by name or by its types' names.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import NamedTuple

from capienza.catalog.forms import FullGpu, FullHost, FullOffer, FullPrice
from capienza.catalog.importers.form import Form, Reader, Source
from capienza.catalog.importers.row import LeaveOut, Row
from capienza.catalog.importers.said import (
    GPUS_CONTRADICT,
    IN_DOLLARS,
    MEMORY_IMPLAUSIBLE,
    NO_GPU,
    NOT_STOCK,
    PRICE_UNKNOWN,
)
from capienza.errors import InputError, template

WHO = template(
    "import.skypilot-who",
    "the type {found} is of no seller whose sizes are known, and SizeInMiB means another thing for each seller",
    "Give the seller with --provider: vast, lambda or runpod; for any other name the memory is read as not stated.",
)
OTHER_SELLER = template(
    "import.skypilot-other-seller", "the type {found} is not one of {provider}, as which the file is read"
)
TOTAL = template(
    "import.skypilot-total",
    "SizeInMiB is the total of the instance on Vast: it is divided by the number of GPUs, and read as the driver's",
)
NOMINAL = template(
    "import.skypilot-nominal",
    "SizeInMiB is the seller's GB of one GPU times 1024 on Lambda (and so is TotalGpuMemoryInMiB): it is kept as the "
    "seller's text, and enters no comparison",
)
GIGABYTES = template(
    "import.skypilot-gigabytes",
    "SizeInMiB holds GB on RunPod: it is kept as the seller's text, and enters no comparison",
)
SIZE_NOT_READ = template(
    "import.skypilot-size-not-read",
    "what SizeInMiB means for {provider} is not known: the memory is read as not stated",
)
MERGED = template(
    "import.skypilot-merged",
    "AcceleratorName merges variants: {merged} stands for {found} here, the name that is read",
)
UNEVEN = template(
    "import.skypilot-uneven", "{found} MiB cannot be {count} equal GPUs: the memory is read as not stated"
)
FILTER_VALUES = template(
    "import.skypilot-filter",
    "vCPUs and MemoryGiB are what was searched for on Vast, not what the server has: they are not taken",
)
SPOT_EQUAL = template(
    "import.skypilot-spot-equal", "SpotPrice equals Price on RunPod: that is no evidence of an interruptible offer"
)
SEVERAL_KINDS = template("import.skypilot-several-kinds", "GpuInfo lists {found} kinds of GPU")

_SIZE = re.compile(r"'SizeInMiB': ?([0-9]{1,9}(?:\.[0-9]{1,3})?)\b")
_NAME = re.compile(r"'Name': ?'([^']{1,100})'")
_COUNT = re.compile(r"'Count': ?([0-9]{1,6}(?:\.0+)?)\b")
_COUNTRY = re.compile(r"[A-Z]{2}", re.ASCII)
_LEAST_MIB, _MOST_MIB = 1500, 600_000


class Seller(NamedTuple):
    """How the types of a seller are named; a group `name` is what it calls the GPU itself."""

    types: re.Pattern[str]


SELLERS = {
    "vast": Seller(re.compile(r"[0-9]+x-(?P<name>.+)-[0-9]+-[0-9]+")),
    "lambda": Seller(re.compile(r"(?:gpu|cpu)_[0-9]+x_.+")),
    "runpod": Seller(re.compile(r"[0-9]+x_.+_(?:SECURE|COMMUNITY)")),
}


class _Info(NamedTuple):
    """What the text in GpuInfo says: number of kinds, name, count and size as written."""

    kinds: int
    name: str | None
    gpus: float | None
    size: float | None


@functools.lru_cache(maxsize=1024)
def _info(text: str) -> _Info:
    sizes, names, counts = _SIZE.findall(text), _NAME.findall(text), _COUNT.findall(text)
    return _Info(
        kinds=len(sizes),
        name=names[0] if names else None,
        gpus=float(counts[0]) if counts else None,
        size=float(sizes[0]) if sizes else None,
    )


class _Reader:
    """Reads rows of one file; the seller is the same in all of them."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.provider = source.provider

    def __call__(self, row: Row) -> Iterator[FullOffer]:
        kind = row.needed("InstanceType")
        merged = row.text("AcceleratorName")
        if merged is None:
            raise LeaveOut(NO_GPU(), "AcceleratorName")
        provider = self.seller(row, kind)
        gpus, info = self.counted(row)
        gpu = self.gpu(row, provider, kind, merged, gpus, info)
        region, country = _where(row, provider)
        host = None
        if provider == "vast":
            row.once(FILTER_VALUES(), "vCPUs")
        else:
            host = FullHost(vcpus=row.aside("vCPUs"), ram_gib=row.aside("MemoryGiB"))
            row.once(NOT_STOCK(), "InstanceType")
        row.once(IN_DOLLARS(source="SkyPilot"), "Price")
        price, spot = row.amount("Price"), self.spot(row, provider)
        for amount, is_spot in ((price, False), *(((spot, True),) if spot else ())):
            yield self.source.offer(
                row,
                (provider, kind, region, "spot" if is_spot else None),
                provider=provider,
                gpu=gpu,
                gpus=gpus,
                gpus_per_node=gpus,
                price=FullPrice(
                    kind="per_offer_hour",
                    amount=amount,
                    currency=None if amount is None else "USD",
                    interruptible=is_spot,
                ),
                host=host,
                region=region,
                country=country,
            )

    def seller(self, row: Row, kind: str) -> str:
        """Who sells: told by the caller, or by how the types are named. Raises `InputError` when nobody can tell."""
        named = next((name for name, seller in SELLERS.items() if seller.types.fullmatch(kind)), None)
        if self.provider is None:
            if named is None:
                raise InputError(WHO(found=kind[:60]), row.place("InstanceType"))
            self.provider = named
        elif self.provider in SELLERS and named != self.provider:
            raise LeaveOut(OTHER_SELLER(found=kind[:60], provider=self.provider), "InstanceType")
        return self.provider

    def counted(self, row: Row) -> tuple[int, _Info]:
        gpus = row.count("AcceleratorCount")
        if not gpus:
            raise LeaveOut(NO_GPU(), "AcceleratorCount")
        info = _info(row.text("GpuInfo") or "")
        if info.kinds > 1:
            raise LeaveOut(SEVERAL_KINDS(found=info.kinds), "GpuInfo")
        if info.gpus is not None and info.gpus != gpus:
            stated = f"{info.gpus:g}"
            raise LeaveOut(
                GPUS_CONTRADICT(column="AcceleratorCount", found=gpus, other="GpuInfo", stated=stated),
                "AcceleratorCount",
            )
        return gpus, info

    def gpu(self, row: Row, provider: str, kind: str, merged: str, gpus: int, info: _Info) -> FullGpu:
        """Name and memory of one GPU, by what this seller's columns hold."""
        size = info.size
        if provider == "vast":
            matched = SELLERS["vast"].types.fullmatch(kind)
            name = matched["name"] if matched else merged
            if _letters(name) != _letters(merged):
                row.note(MERGED(merged=merged[:60], found=name[:60]), "AcceleratorName")
            row.once(TOTAL(), "GpuInfo")
            if size is not None and size % gpus:
                row.note(UNEVEN(found=f"{size:g}", count=gpus), "GpuInfo")
                return FullGpu(name_raw=name)
            mib = _plausible(row, None if size is None else size / gpus, "MiB")
            return FullGpu(
                name_raw=name,
                memory_reported_mib=None if mib is None else int(mib),
                memory_source=None if mib is None else "driver",
            )
        if provider == "lambda":
            row.once(NOMINAL(), "GpuInfo")
            mib = _plausible(row, size, "MiB")
            return FullGpu(name_raw=merged, memory_nominal_gb=None if mib is None else mib / 1024)
        if provider == "runpod":
            row.once(GIGABYTES(), "GpuInfo")
            mib = _plausible(row, None if size is None else size * 1024, "GB")
            return FullGpu(name_raw=info.name or merged, memory_nominal_gb=None if mib is None else mib / 1024)
        row.once(SIZE_NOT_READ(provider=provider), "GpuInfo")
        return FullGpu(name_raw=merged)

    def spot(self, row: Row, provider: str) -> str | None:
        """The price of an interruptible instance, where it is one."""
        spot = row.number("SpotPrice")
        if spot is None:
            return None
        if not spot:
            row.note(PRICE_UNKNOWN(column="SpotPrice", found=f"{spot:f}"), "SpotPrice")
            return None
        if provider == "runpod" and spot == row.number("Price"):
            row.note(SPOT_EQUAL(), "SpotPrice")
            return None
        return row.amount("SpotPrice")


def _plausible(row: Row, mib: float | None, unit: str) -> float | None:
    """The memory of one GPU in MiB, when it can be one: a total taken for one GPU, or GB taken for MiB, cannot."""
    if mib is None:
        return None
    if not _LEAST_MIB <= mib <= _MOST_MIB or (unit == "MiB" and mib != int(mib)):
        row.note(MEMORY_IMPLAUSIBLE(column="SizeInMiB", found=f"{mib:g} MiB", unit=unit), "GpuInfo")
        return None
    return mib


def _where(row: Row, provider: str) -> tuple[str | None, str | None]:
    """Region and country: Vast writes "Texas, US, NA", RunPod the country beside the zone."""
    region, zone = row.text("Region"), row.text("AvailabilityZone")
    if provider == "vast" and region:
        parts = [part.strip() for part in region.split(",")]
        country = parts[1] if len(parts) == 3 and _COUNTRY.fullmatch(parts[1]) else None
        return region.strip(" ,") or None, country
    if zone:
        return zone, region if region and _COUNTRY.fullmatch(region) else None
    return region, None


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _reader(source: Source) -> Reader:
    return _Reader(source)


FORM = Form(
    name="skypilot",
    title="SkyPilot",
    ending=".csv",
    marks=frozenset({"InstanceType", "AcceleratorName", "AcceleratorCount", "Price"}),
    columns={
        "offer_id": "InstanceType",
        "gpu.name_raw": "AcceleratorName",
        "gpu.memory_reported_mib": "GpuInfo",
        "gpu.memory_nominal": "GpuInfo",
        "gpus_total": "AcceleratorCount",
        "price.amount": "Price",
        "price.interruptible": "SpotPrice",
        "region": "Region",
        "zone": "AvailabilityZone",
        "host.vcpus": "vCPUs",
        "host.ram_gib": "MemoryGiB",
    },
    reader=_reader,
    needs_provider=True,
)
