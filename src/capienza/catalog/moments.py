"""Dates of offers: a date-time needs an offset, a bare date is a whole day of some time zone."""

from __future__ import annotations

import datetime
import functools
import re

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?(?:Z|[+-][0-9]{2}:[0-9]{2})"
)
MONTH = re.compile(r"[0-9]{4}-[0-9]{2}")
FIRST_YEAR, LAST_YEAR = 1970, 2199


@functools.lru_cache(maxsize=1024)
def parse_moment(text: str) -> datetime.datetime | None:
    """A date-time with its offset; None for anything else."""
    return _within_years(text) if _MOMENT.fullmatch(text) else None


@functools.lru_cache(maxsize=1024)
def parse_day(text: str, zone: datetime.tzinfo) -> tuple[datetime.datetime, datetime.datetime] | None:
    """First moment of a bare date in `zone` and of the day after; None for anything else."""
    day = _within_years(text) if _DAY.fullmatch(text) else None
    if day is None:
        return None
    return day.replace(tzinfo=zone), (day + datetime.timedelta(days=1)).replace(tzinfo=zone)


def _within_years(text: str) -> datetime.datetime | None:
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if FIRST_YEAR <= moment.year <= LAST_YEAR else None
