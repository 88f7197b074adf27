"""Whole days in a time zone: hand-worked instants, days without a midnight, and subtraction across daylight saving."""

import datetime
import zoneinfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capienza.card.load import parse_card
from capienza.card.model import Calendar
from capienza.card.moments import end_of, start_of

DAY = datetime.date


def utc(year: int, month: int, day: int, hour: int = 0, minute: int = 0) -> datetime.datetime:
    return datetime.datetime(year, month, day, hour, minute, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("day", "zone", "start", "end"),
    [
        (DAY(2026, 12, 7), "UTC", utc(2026, 12, 7), utc(2026, 12, 8)),
        (DAY(2026, 12, 7), "Europe/Rome", utc(2026, 12, 6, 23), utc(2026, 12, 7, 23)),
        (DAY(2026, 7, 7), "Europe/Rome", utc(2026, 7, 6, 22), utc(2026, 7, 7, 22)),
        (DAY(2026, 3, 29), "Europe/Rome", utc(2026, 3, 28, 23), utc(2026, 3, 29, 22)),  # 23 hours
        (DAY(2026, 10, 25), "Europe/Rome", utc(2026, 10, 24, 22), utc(2026, 10, 25, 23)),  # 25 hours
        (DAY(2026, 12, 7), "Asia/Kolkata", utc(2026, 12, 6, 18, 30), utc(2026, 12, 7, 18, 30)),
        (DAY(2018, 11, 4), "America/Sao_Paulo", utc(2018, 11, 4, 3), utc(2018, 11, 5, 2)),  # begins at 01:00
        (DAY(2025, 11, 2), "America/Havana", utc(2025, 11, 2, 4), utc(2025, 11, 3, 5)),  # midnight comes twice
    ],
)
def test_a_bare_date_is_a_whole_day(day, zone, start, end):
    assert (start_of(day, zone), end_of(day, zone)) == (start, end)


@given(
    st.dates(DAY(1990, 1, 1), DAY(2035, 1, 1)),
    st.sampled_from(["Europe/Rome", "America/New_York", "America/Sao_Paulo", "Africa/Cairo", "Australia/Lord_Howe"]),
)
def test_days_follow_each_other_without_gap_or_overlap(day, zone):
    assert end_of(day, zone) == start_of(day + datetime.timedelta(days=1), zone)
    first = start_of(day, zone).astimezone(zoneinfo.ZoneInfo(zone))
    before = (start_of(day, zone) - datetime.timedelta(microseconds=1)).astimezone(zoneinfo.ZoneInfo(zone))
    assert (first.date(), before.date()) == (day, day - datetime.timedelta(days=1))


def calendar(text: str) -> Calendar:
    found = parse_card(f"capienza: 1\nname: x\nmodel: {{id: a/b}}\ntask: inference\ncalendar: {text}\n").calendar
    assert isinstance(found, Calendar)
    return found


def test_a_window_over_daylight_saving_is_as_long_as_it_is():
    window = calendar("{timezone: Europe/Rome, start: 2026-03-28, deadline: 2026-03-29}")
    assert window.start is not None
    assert window.deadline is not None
    assert window.deadline - window.start == datetime.timedelta(hours=47)


def test_one_day_is_a_window_and_a_moment_needs_no_zone():
    day = calendar("{timezone: UTC, start: 2026-12-07, deadline: 2026-12-07}")
    assert (day.start, day.deadline) == (utc(2026, 12, 7), utc(2026, 12, 8))
    moment = calendar("{start: 2026-12-07T09:30+05:30, deadline: 2026-12-07 10:00:00.5Z}")
    assert (moment.start, moment.deadline) == (
        utc(2026, 12, 7, 4),
        utc(2026, 12, 7, 10) + datetime.timedelta(seconds=0.5),
    )
