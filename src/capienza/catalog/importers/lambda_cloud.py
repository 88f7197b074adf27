"""Lambda's answer to a query of instance types: whole US cents for the instance and hour, memory in words.

The regions with capacity are what is free now: an offer is made for each, with its stock, and one without a region
where there is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from capienza.catalog.forms import FullGpu, FullHost, FullOffer, FullPrice
from capienza.catalog.importers.form import Form, Reader, Source
from capienza.catalog.importers.row import LeaveOut, Row
from capienza.catalog.importers.said import GPUS_CONTRADICT, IN_DOLLARS, NO_GPU, STOCK_IS_A_WISH
from capienza.errors import template

CENTS = template("import.lambda-cents", "price_cents_per_hour is US cents for the whole instance: it is divided by 100")
IN_WORDS = template(
    "import.lambda-memory",
    "the memory of one GPU is read from words such as {found}: it is the seller's number, and enters no comparison",
)
WORDS_NOT_READ = template(
    "import.lambda-words", "{found} does not say GPU and memory as 1x A10 (24 GB): the memory is read as not stated"
)

_WORDS = re.compile(
    r"(?:(?P<count>[0-9]{1,4})x )?(?P<name>[^()]{1,100}?) ?\((?P<memory>[0-9]{1,4}) GB(?: (?P<form>[^()]{0,40}))?\)"
)


def _reader(source: Source) -> Reader:
    def read(row: Row) -> Iterator[FullOffer]:
        inner = _inner(row)
        specs = _object(inner, "specs")
        kind, words = inner.needed("name"), inner.text("gpu_description") or inner.text("description") or ""
        matched = _WORDS.fullmatch(inner.text("description") or "")
        gpus = _gpus(specs, matched)
        if not gpus:
            raise LeaveOut(NO_GPU(), "instance_type")
        gpu = _gpu(row, _WORDS.fullmatch(words) or matched, words)
        cents = inner.number("price_cents_per_hour")
        row.once(CENTS(), "instance_type")
        row.once(IN_DOLLARS(source="Lambda"), "instance_type")
        row.once(STOCK_IS_A_WISH(), "regions_with_capacity_available")
        storage = specs.number("storage_gib")
        regions = _regions(row)
        for region in regions or (None,):
            yield source.offer(
                row,
                (kind, region),
                provider=source.provider or "lambda",
                gpu=gpu,
                gpus=gpus,
                gpus_per_node=gpus,
                price=FullPrice(
                    kind="per_offer_hour",
                    amount=None if cents is None else f"{cents / 100:f}",
                    currency=None if cents is None else "USD",
                ),
                host=FullHost(
                    vcpus=specs.aside("vcpus"),
                    ram_gib=specs.aside("memory_gib"),
                    disk_gb=float(storage * 1024**3 / 10**9) if storage else None,
                ),
                region=region,
                stock="available" if region else "none",
                stock_checked_at=source.retrieved.isoformat() if source.retrieved else None,
            )

    return read


def _object(row: Row, column: str) -> Row:
    """The keys and values under a key; none when it holds no object."""
    value = row.values.get(column)
    found = Row(value if isinstance(value, dict) else {}, row.number_in_file, lambda _: row.place(column), row.once)
    found.notes = row.notes
    return found


def _inner(row: Row) -> Row:
    inner = _object(row, "instance_type")
    row.needed("instance_type") if not inner.values else None
    return inner


def _gpus(specs: Row, matched: re.Match[str] | None) -> int | None:
    """How many GPUs, from the figures or else from the words; the two must agree."""
    stated = specs.count("gpus")
    said = int(matched["count"]) if matched and matched["count"] else None
    if stated and said and stated != said:
        raise LeaveOut(
            GPUS_CONTRADICT(column="specs.gpus", found=stated, other="description", stated=str(said)), "instance_type"
        )
    return stated if stated is not None else said


def _gpu(row: Row, matched: re.Match[str] | None, words: str) -> FullGpu:
    if matched is None:
        row.note(WORDS_NOT_READ(found=words[:80]), "instance_type")
        return FullGpu(name_raw=words[:200] or "?")
    row.once(IN_WORDS(found=words[:80]), "instance_type")
    name, form = matched["name"].strip(), (matched["form"] or "").strip()
    return FullGpu(name_raw=f"{name} {form}".strip(), memory_nominal_gb=int(matched["memory"]))


def _regions(row: Row) -> list[str]:
    """The names of the regions where the type is free now."""
    found: Any = row.values.get("regions_with_capacity_available")
    regions = found if isinstance(found, list) else []
    names = [region.get("name") for region in regions if isinstance(region, dict)]
    return [name for name in names if isinstance(name, str) and name.strip()]


FORM = Form(
    name="lambda",
    title="Lambda",
    ending=".json",
    marks=frozenset({"instance_type"}),
    paths=(("data",), ()),
    columns={
        "offer_id": "instance_type",
        "gpu.name_raw": "instance_type",
        "gpu.memory_nominal": "instance_type",
        "price.amount": "instance_type",
        "stock": "regions_with_capacity_available",
    },
    reader=_reader,
)
