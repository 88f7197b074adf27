"""gpuhunt's catalogue, one CSV file for each seller: prices in dollars for the instance and hour.

Its memory is snapped to a known size within 7 percent, so it is the seller's text and no driver's figure. Its RAM is
GB for some sellers and GiB for others, and its disk may be the filter's: both are kept as notes, not as a server.
"""

from __future__ import annotations

from collections.abc import Iterator

from capienza.catalog.devices import load_devices
from capienza.catalog.forms import FullGpu, FullHost, FullOffer, FullPrice
from capienza.catalog.importers.form import Form, Reader, Source
from capienza.catalog.importers.row import NOT_READ, NOT_WHOLE, LeaveOut, Row
from capienza.catalog.importers.said import IN_DOLLARS, NO_GPU
from capienza.catalog.names import lookup
from capienza.errors import template

SNAPPED = template(
    "import.gpuhunt-memory",
    "gpu_memory is moved by the source to a known size within 7 %: it is kept as the seller's text, and enters no "
    "comparison",
)
SERVER_UNSURE = template(
    "import.gpuhunt-server",
    "memory is GB for some sellers and GiB for others, and disk_size may be the one that was searched for: both are "
    "kept as notes, so RAM and disk stay to confirm",
)
NO_SELLER = template(
    "import.gpuhunt-seller",
    "the file does not name the seller: the offers are under the name gpuhunt",
    "Give the seller with --provider.",
)
FRACTION = template(
    "import.gpuhunt-fraction",
    "{found} of a GPU is read as one part of it: how much of its memory that is, is not stated",
    "Ask the seller for the profile and for the memory that the driver reports.",
)
OTHER_MAKER = template(
    "import.gpuhunt-maker", "{found} makes no GPU that is known here; what this is cannot be compared"
)
MAKER_CONTRADICTS = template("import.gpuhunt-maker-contradicts", "{name} is not made by {found}")
FLAGS = template("import.gpuhunt-flags", "the flags {found} limit the offer; they are kept as a note")

_MAKERS = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel"}
_ARCHITECTURES = {"x86": "x86_64", "x86_64": "x86_64", "amd64": "x86_64", "arm": "aarch64", "arm64": "aarch64"}


def _reader(source: Source) -> Reader:
    provider = source.provider or "gpuhunt"

    def read(row: Row) -> Iterator[FullOffer]:
        gpus, share = _gpus(row)
        name = row.needed("gpu_name")
        _maker(row, name)
        amount, spot = row.amount("price"), row.flag("spot")
        row.once(IN_DOLLARS(source="gpuhunt"), "price")
        row.once(SNAPPED(), "gpu_memory")
        row.once(SERVER_UNSURE(), "memory")
        if source.provider is None:
            row.once(NO_SELLER(), None)
        location = row.text("location")
        yield source.offer(
            row,
            (source.provider, row.needed("instance_name"), location, "spot" if spot else None),
            provider=provider,
            gpu=FullGpu(name_raw=name, memory_nominal_gb=row.aside("gpu_memory", 10_000), share=share),  # type: ignore[arg-type]
            gpus=gpus,
            gpus_per_node=gpus,
            price=FullPrice(
                kind="per_offer_hour", amount=amount, currency=None if amount is None else "USD", interruptible=spot
            ),
            host=_host(row),
            region=location,
            notes=_notes(row),
        )

    return read


def _gpus(row: Row) -> tuple[int, str | None]:
    """How many GPUs, or the one part of a GPU; a part is no whole card that can be counted."""
    found = row.number("gpu_count")
    if not found:
        raise LeaveOut(NO_GPU(), "gpu_count")
    if found < 1:
        row.note(FRACTION(found=f"{found:f}"), "gpu_count")
        return 1, "vgpu"
    if found != int(found):
        raise LeaveOut(NOT_WHOLE(column="gpu_count", found=f"{found:f}"), "gpu_count")
    return row.count("gpu_count") or 1, None


def _maker(row: Row, name: str) -> None:
    maker = row.text("gpu_vendor")
    if maker is None:
        return
    known = _MAKERS.get(maker.lower())
    if known is None:
        raise LeaveOut(OTHER_MAKER(found=maker[:40]), "gpu_vendor")
    makers = {load_devices()[key].vendor for key in lookup(name).candidates}
    if makers and known not in makers:
        raise LeaveOut(MAKER_CONTRADICTS(name=name[:60], found=maker[:40]), "gpu_vendor")


def _host(row: Row) -> FullHost | None:
    vcpus, written = row.aside("cpu"), row.text("cpu_arch")
    architecture = _ARCHITECTURES.get(written.lower()) if written else None
    if written and architecture is None:
        row.note(NOT_READ(column="cpu_arch", found=written[:60]), "cpu_arch")
    if vcpus is None and architecture is None:
        return None
    return FullHost(vcpus=vcpus, cpu_arch=architecture)  # type: ignore[arg-type]


def _notes(row: Row) -> str | None:
    """What the source says in words or in units of its own."""
    flags = row.text("flags")
    if flags:
        row.note(FLAGS(found=flags[:60]), "flags")
    said = (("memory", row.text("memory")), ("disk_size", row.text("disk_size")), ("flags", flags))
    return "; ".join(f"{name}: {value[:200]}" for name, value in said if value) or None


FORM = Form(
    name="gpuhunt",
    title="gpuhunt",
    ending=".csv",
    marks=frozenset({"instance_name", "price", "gpu_count", "gpu_name", "gpu_memory", "spot"}),
    columns={
        "offer_id": "instance_name",
        "gpu.name_raw": "gpu_name",
        "gpu.memory_nominal": "gpu_memory",
        "gpu.share": "gpu_count",
        "price.amount": "price",
        "price.interruptible": "spot",
        "region": "location",
        "host.vcpus": "cpu",
        "host.cpu_arch": "cpu_arch",
        "notes.memory": "memory",
        "notes.disk": "disk_size",
        "notes.flags": "flags",
        "maker": "gpu_vendor",
    },
    reader=_reader,
)
