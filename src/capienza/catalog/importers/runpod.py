"""RunPod's answer to a query of gpuTypes: credits, which are dollars, for one GPU and hour.

The prices of a week or of months are rates by GPU and hour too, for a term that is paid in full: 7, 30, 90 and 180
days. A pod is one machine, so a type makes offers of 1, 2, 4, 8... GPUs up to the most that one pod can have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Literal, NamedTuple

from capienza.catalog.forms import FullGpu, FullOffer, FullPrice
from capienza.catalog.importers.form import Form, Reader, Source
from capienza.catalog.importers.row import NOT_READ, LeaveOut, Row
from capienza.catalog.importers.said import IN_DOLLARS, PRICE_UNKNOWN, STOCK_IS_A_WISH
from capienza.errors import template

NOMINAL = template(
    "import.runpod-memory", "memoryInGb is the seller's number: it is kept as text, and enters no comparison"
)
RATE = template(
    "import.runpod-rate",
    "the prices of a week and of months are rates by GPU and hour, not totals: the least that is paid is the whole "
    "term of 7, 30, 90 or 180 days",
)
NOT_A_RATE = template(
    "import.runpod-not-a-rate",
    "{column} is {found}, far above {other} by the hour: it may be a total, so the term is left out",
)
COUNTS = template(
    "import.runpod-counts", "one pod may have {most} GPUs: offers are made of 1, 2, 4 and so on up to that number"
)
UNPRICED = template("import.runpod-unpriced", "no price is stated: neither of the secure nor of the community cloud")

_STOCK: dict[str, Literal["available", "limited", "none"]] = {
    "high": "available",
    "medium": "available",
    "low": "limited",
    "none": "none",
}
_MOST_GPUS = 64


class _Way(NamedTuple):
    """One way to buy: the key of its price, its name, the days paid at the least, whether it may be cut off."""

    column: str
    name: str
    days: int = 0
    interruptible: bool = False


_WAYS = (
    _Way("securePrice", "secure"),
    _Way("communityPrice", "community"),
    _Way("secureSpotPrice", "secure-spot", interruptible=True),
    _Way("communitySpotPrice", "community-spot", interruptible=True),
    _Way("oneWeekPrice", "week", 7),
    _Way("oneMonthPrice", "month", 30),
    _Way("threeMonthPrice", "3-months", 90),
    _Way("sixMonthPrice", "6-months", 180),
)


def _reader(source: Source) -> Reader:
    def read(row: Row) -> Iterator[FullOffer]:
        identity = row.needed("id")
        gpu = FullGpu(name_raw=row.text("displayName") or identity, memory_nominal_gb=row.aside("memoryInGb", 10_000))
        row.once(IN_DOLLARS(source="RunPod"), None)
        row.once(NOMINAL(), "memoryInGb")
        ways, lowest = _ways(row), row.values.get("lowestPrice")
        stock = _stock(row, lowest if isinstance(lowest, dict) else {})
        most = row.count("maxGpuCount") or 1
        if most > 1:
            row.once(COUNTS(most=most), "maxGpuCount")
        for way, amount in ways:
            for gpus in _counts(min(most, _MOST_GPUS)):
                yield source.offer(
                    row,
                    (identity, way.name, f"{gpus}x"),
                    provider=source.provider or "runpod",
                    gpu=gpu,
                    gpus=gpus,
                    gpus_per_node=gpus,
                    price=FullPrice(
                        kind="per_gpu_hour",
                        amount=amount,
                        currency="USD",
                        min_hours=way.days * 24 or None,
                        interruptible=way.interruptible,
                        unused_refunded=False if way.days else None,
                    ),
                    region=None,
                    stock=stock if gpus == 1 else None,
                    stock_checked_at=source.retrieved.isoformat() if stock and gpus == 1 and source.retrieved else None,
                )

    return read


def _ways(row: Row) -> list[tuple[_Way, str]]:
    """Each way to buy that has a price; a price of zero, or a total in place of a rate, is said and left out."""
    found: list[tuple[_Way, str]] = []
    hourly = max((row.number(column) or Decimal(0) for column in ("securePrice", "communityPrice")), default=Decimal(0))
    for way in _WAYS:
        rate = row.number(way.column)
        if rate is None:
            continue
        if not rate:
            row.note(PRICE_UNKNOWN(column=way.column, found="0"), way.column)
        elif way.days and hourly and rate > 3 * hourly:
            message = NOT_A_RATE(column=way.column, found=f"{rate:f}", other=f"{hourly:f}")
            row.note(message, way.column)
        else:
            found.append((way, row.amount(way.column) or "0"))
            if way.days:
                row.once(RATE(), way.column)
    bid = _lowest_bid(row)
    if bid is not None and not any(way.interruptible for way, _ in found):
        found.append((_Way("lowestPrice", "bid", interruptible=True), bid))
    if not found:
        raise LeaveOut(UNPRICED(), "securePrice")
    return found


def _lowest_bid(row: Row) -> str | None:
    lowest = row.values.get("lowestPrice")
    if not isinstance(lowest, dict):
        return None
    inner = Row(lowest, row.number_in_file, lambda _: row.place("lowestPrice"), row.once)
    amount = inner.amount("minimumBidPrice")
    if amount is not None and not Decimal(amount):
        row.note(PRICE_UNKNOWN(column="minimumBidPrice", found="0"), "lowestPrice")
        return None
    return amount


def _stock(row: Row, lowest: Mapping[str, Any]) -> str | None:
    word = lowest.get("stockStatus")
    if not isinstance(word, str):
        return None
    row.once(STOCK_IS_A_WISH(), "lowestPrice")
    stock = _STOCK.get(word.lower())
    if stock is None and word:
        row.note(NOT_READ(column="stockStatus", found=word[:60]), "lowestPrice")
    return stock


def _counts(most: int) -> list[int]:
    counts = [count for count in (1, 2, 4, 8, 16, 32, 64) if count <= most]
    return counts if counts[-1] == most else [*counts, most]


FORM = Form(
    name="runpod",
    title="RunPod",
    ending=".json",
    marks=frozenset({"securePrice", "communityPrice", "memoryInGb"}),
    paths=(("data", "gpuTypes"), ("gpuTypes",)),
    columns={
        "offer_id": "id",
        "gpu.name_raw": "displayName",
        "gpu.memory_nominal": "memoryInGb",
        "gpus_total": "maxGpuCount",
        "price.amount": "securePrice",
        "stock": "lowestPrice",
        **{f"price.{way.name}": way.column for way in _WAYS},
    },
    reader=_reader,
)
