"""Days, moments and time zones of a card.

A bare date is a whole day in the card's time zone: it starts at its first instant and ends, exclusively, at the first
instant of the next day. Moments are kept with a fixed offset, because two moments in one named zone subtract by the
clock on the wall and lose the hour that daylight saving adds or takes.
"""

from __future__ import annotations

import datetime
import re

from capienza.card.kinds import Kind
from capienza.card.problems import Refused, Value, closest, shown
from capienza.errors import template

NOT_A_MOMENT = template(
    "card.not-a-moment",
    "expected a date such as 2026-12-07, or a date-time with its offset such as 2026-12-07T09:00+01:00, got {found}",
    "Write the year first, with two digits for month and day.",
)
NAIVE = template(
    "card.date-time-without-offset",
    "expected a date-time with its offset, got {found}",
    "Add the offset from UTC: {found_text}+01:00, or {found_text}Z for UTC itself.",
)
UNKNOWN_ZONE = template(
    "card.unknown-time-zone",
    "expected the name of a time zone such as Europe/Rome, got {found}",
    "Use a name of the IANA time zone database; if this machine has none, install the tzdata package.",
)

Moment = datetime.date | datetime.datetime
FIRST_YEAR, LAST_YEAR = 1970, 9998

_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = r"[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?"
_OFFSET = r"(Z|[+-][0-9]{2}:[0-9]{2})"


def start_of(moment: Moment, timezone: str | None) -> datetime.datetime:
    """The first instant of a day in `timezone`, or the moment itself."""
    if isinstance(moment, datetime.datetime):
        return moment
    return _midnight(moment, timezone)


def end_of(moment: Moment, timezone: str | None) -> datetime.datetime:
    """The first instant after a day in `timezone`, or the moment itself."""
    if isinstance(moment, datetime.datetime):
        return moment
    return _midnight(moment + datetime.timedelta(days=1), timezone)


def _midnight(day: datetime.date, timezone: str | None) -> datetime.datetime:
    import zoneinfo

    assert timezone is not None, "a bare date was accepted without a time zone"
    local = datetime.datetime(day.year, day.month, day.day, tzinfo=zoneinfo.ZoneInfo(timezone))
    offset = local.utcoffset()
    assert offset is not None
    return local.replace(tzinfo=datetime.timezone(offset))


def _moment(value: Value) -> Moment:
    found = value if isinstance(value, str) else ""
    try:
        moment = _read_moment(found)
    except ValueError:
        moment = None
    if moment and FIRST_YEAR <= moment.year <= LAST_YEAR:
        return moment
    if re.fullmatch(_DATE + _TIME, found, re.ASCII):
        raise Refused(NAIVE(found=shown(value), found_text=found))
    raise Refused(NOT_A_MOMENT(found=shown(value)))


def _read_moment(found: str) -> Moment | None:
    if re.fullmatch(_DATE, found, re.ASCII):
        return datetime.date.fromisoformat(found)
    if re.fullmatch(_DATE + _TIME + _OFFSET, found, re.ASCII):
        return datetime.datetime.fromisoformat(found)
    return None


def _zone(value: Value) -> str:
    import zoneinfo

    name = value if isinstance(value, str) else ""
    try:
        if re.fullmatch(r"[A-Za-z0-9_+/-]{1,60}", name, re.ASCII):
            zoneinfo.ZoneInfo(name)
            return name
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        pass
    raise Refused(UNKNOWN_ZONE(found=shown(value)), closest(name, zoneinfo.available_timezones()))


MOMENT = Kind(
    text="date, or date-time with its offset",
    schema={"type": "string", "pattern": f"^{_DATE}({_TIME}{_OFFSET})?$"},
    convert=_moment,
)
ZONE = Kind(text="IANA time zone", schema={"type": "string", "pattern": r"^[A-Za-z0-9_+/\-]{1,60}$"}, convert=_zone)
