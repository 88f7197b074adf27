"""How old a price may be: a price without an end of its own is no evidence beyond the age that the card accepts."""

from __future__ import annotations

import datetime
import math

import msgspec

from capienza.catalog.offer import Document
from capienza.decide.verdict import Finding
from capienza.errors import Message, Parameter, template
from capienza.truth import Truth

TOO_OLD = template(
    "decide.price-too-old",
    "the price in {document} was read on {date}, {age} ago; the card accepts {accepted}",
)
SETTLE_TOO_OLD = template(
    "decide.settle-price-too-old",
    "read the price again: {document} is {age} old, and the card accepts {accepted}",
    "fetch the list again and import it with --retrieved, or ask the seller for a quote with an end",
)
DAYS = template("decide.age-days", "{days} days")
HOURS = template("decide.age-hours", "{hours} h")

DAY = datetime.timedelta(days=1)


def price_in_date(
    finding: Finding, document: Document | None, accepted: datetime.timedelta | None, now: datetime.datetime
) -> Finding:
    """The finding on the price, left open where the price is too old; a quote that is still open is never too old."""
    date = (document.retrieved or document.valid_from) if document else None
    if accepted is None or document is None or date is None or document.valid_until is not None:
        return finding
    age = now - date
    if age <= accepted:
        return finding
    words: dict[str, Parameter] = {"document": document.id, "age": _length(age), "accepted": _length(accepted)}
    return msgspec.structs.replace(
        finding,
        truth=Truth.UNKNOWN,
        reasons=(TOO_OLD(date=f"{date:%Y-%m-%d}", **words), *finding.reasons),
        settle=(SETTLE_TOO_OLD(**words), *finding.settle),
    )


def _length(time: datetime.timedelta) -> Message:
    """Whole days, or hours below two days; rounded up, so that what is older also reads older."""
    if time > 2 * DAY:
        return DAYS(days=math.ceil(time / DAY))
    return HOURS(hours=math.ceil(time / DAY * 24))
