"""From raw readings to peaks: the largest of each counter in each phase, on each GPU.

Legend: a reading counts for a phase when it was taken while the phase lasted, or is the first one after it: an
allocator gives little back, so that one holds what a short phase took. Files of several processes have clocks
of their own, which are set side by side by the moment each began. Readings of one counter are compared, never added.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path

import msgspec

from capienza.errors import InputError, Message
from capienza.evidence.vocabulary import PHASES
from capienza.measure.readings import Readings, Span

WHOLE_RUN = "run"
MAX_SPANS = 1_000_000


class PhasePeak(msgspec.Struct, frozen=True, kw_only=True):
    """The largest reading of one counter in one phase; `phase` "run" is the whole of it."""

    phase: str
    counter: str
    scope: str
    unit: str
    value: int
    at: float
    source: str
    readings: int


class Peaks(msgspec.Struct, frozen=True):
    """All peaks, the time each phase took, and what was not read."""

    peaks: tuple[PhasePeak, ...]
    phases: dict[str, float]
    notes: tuple[Message, ...]


def peaks_of(folder: Path) -> Peaks:
    """The peaks of every file of readings in a run's folder. A file that is none is a finding, and left out."""
    files: list[tuple[Readings, float]] = []
    notes: list[Message] = []
    started: datetime.datetime | None = None
    for path in sorted(folder.glob("readings*.jsonl"), key=lambda path: (len(path.name), path.name)):
        if "-" in path.stem:  # a closed part of another file
            continue
        try:
            found = Readings(path)
        except InputError as error:
            notes.append(error.message)
            continue
        started = started or found.header.started
        files.append((found, (found.header.started - started).total_seconds()))
    spans = _spans(files, notes)
    best: dict[tuple[str, str, str], PhasePeak] = {}
    for found, shift in files:
        try:
            for peak in _of_file(found, shift, spans):
                key = peak.phase, peak.counter, peak.scope
                known = best.get(key)
                best[key] = peak if known is None else _larger(known, peak)
        except InputError as error:
            notes.append(error.message)
        notes += found.findings
    order = [*PHASES, WHOLE_RUN]
    peaks = sorted(best.values(), key=lambda peak: (order.index(peak.phase), peak.counter, peak.scope))
    return Peaks(tuple(peaks), _durations(spans), tuple(dict.fromkeys(notes)))


def _spans(files: list[tuple[Readings, float]], notes: list[Message]) -> list[Span]:
    spans: list[Span] = []
    for found, shift in files:
        try:
            for span in found.phases():
                if span.phase in PHASES and len(spans) < MAX_SPANS:
                    end = None if span.end is None else span.end + shift
                    spans.append(Span(span.phase, span.start + shift, end, span.source, span.step))
        except InputError as error:
            notes.append(error.message)
    return sorted(spans, key=lambda span: span.start)


def _durations(spans: list[Span]) -> dict[str, float]:
    found: dict[str, float] = {}
    for span in spans:
        if span.end is not None:
            found[span.phase] = round(found.get(span.phase, 0.0) + span.end - span.start, 3)
    return found


def _of_file(found: Readings, shift: float, spans: list[Span]) -> Iterator[PhasePeak]:
    """Go through the readings once. For each counter, the spans that have begun and are not over yet are open."""
    state: dict[tuple[str, str], tuple[int, list[Span]]] = {}
    best: dict[tuple[str, str, str], PhasePeak] = {}
    for one in found.readings():
        counter = one.counter
        first, last = one.first + shift, one.last + shift
        begun, open_spans = state.get((counter.name, counter.scope), (0, []))
        while begun < len(spans) and spans[begun].start <= last:
            open_spans = [*open_spans, spans[begun]]
            begun += 1
        names = {WHOLE_RUN, *(span.phase for span in open_spans)}
        open_spans = [span for span in open_spans if span.end is None or span.end >= last]
        state[counter.name, counter.scope] = begun, open_spans
        for name in names:
            key = name, counter.name, counter.scope
            peak = PhasePeak(
                phase=name, counter=counter.name, scope=counter.scope, unit=counter.unit, value=one.value,
                at=round(first, 3), source=counter.source, readings=one.count,
            )  # fmt: skip
            best[key] = _larger(best[key], peak) if key in best else peak
    yield from best.values()


def _larger(one: PhasePeak, other: PhasePeak) -> PhasePeak:
    larger = one if one.value >= other.value else other
    return msgspec.structs.replace(larger, readings=one.readings + other.readings)
