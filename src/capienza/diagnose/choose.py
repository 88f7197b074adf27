"""Which of many failing lines is the one: the root, not what followed from it.

A stated cause comes before a general error, that before what a launcher or a dead engine says afterwards. Within one
kind the first line is the root, because ranks and outer calls repeat it; an exception of a class that says nothing
comes after one that does. A line that the run survived counts only where
nothing ended it.
"""

from __future__ import annotations

import msgspec

from capienza.diagnose.gather import Failure, Gathered
from capienza.logs import python

_RANKS = {"cause": 0, "error": 1, "consequence": 2, "notice": 3}
NEAR_LINES = 40
"""Lines within which messages of one process belong to one event."""


class Event(msgspec.Struct):
    """The failure chosen, and the other lines that speak of the same event."""

    failure: Failure
    beside: list[Failure]
    is_fatal: bool


def event_of(gathered: Gathered) -> Event | None:
    """The event that a log is about; None where nothing in it failed."""
    failures = list(gathered.failures)
    fatal = [one for one in failures if one.is_fatal]
    strong = [one for one in fatal if one.row.rank in ("cause", "error") and not one.is_superseded]
    if not strong and gathered.tail_is_open:
        strong = [one for one in fatal if one.row.rank == "error"] or [_cut(gathered)]
    chosen = _first(strong) or _first(fatal) or _first(failures)
    if chosen is None:
        return None
    beside = [one for one in failures if one is not chosen and _is_near(one, chosen)]
    beside.sort(key=lambda one: (_RANKS[one.row.rank], abs(one.line - chosen.line)))
    is_fatal = chosen.is_fatal and not _is_survived(chosen, failures, gathered.progress_line)
    return Event(chosen, beside, is_fatal)


def _first(failures: list[Failure]) -> Failure | None:
    return min(failures, key=lambda one: (_RANKS[one.row.rank], one.row is python.OTHER, one.line), default=None)


def _is_near(one: Failure, chosen: Failure) -> bool:
    return abs(one.line - chosen.line) <= NEAR_LINES and one.source in ("", chosen.source)


def _is_survived(chosen: Failure, failures: list[Failure], progress_line: int) -> bool:
    """The run goes on: a retry is announced after the failure, or steps are done after all failing lines."""
    ends = [chosen, *(one for one in failures if one.is_fatal and one.row.rank != "notice")]
    if progress_line > max(one.last_line for one in ends):
        return True
    retries = [one.last_line for one in failures if one.row.code.startswith("retry.") and not one.row.is_fatal]
    retried = max(retries, default=-1)
    return chosen.last_line + NEAR_LINES >= retried >= max(one.last_line for one in ends)


def _cut(gathered: Gathered) -> Failure:
    """A traceback whose last line is not in the log: something failed there, and it is not said what."""
    last = gathered.tail[-1]
    return Failure(
        row=python.CUT, line=last.line, source=last.source, text=last.code or last.function, level="", figures={},
        before=gathered.tail, after=[], is_whole=True, mark=gathered.marks[-1] if gathered.marks else None,
        last_line=last.line,
    )  # fmt: skip
