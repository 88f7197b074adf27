"""From raw readings to peaks: the largest of each counter in each phase, on each GPU.

Legend: a reading counts for a phase when it was taken while the phase lasted, or is the first one after it: an
allocator gives little back, so that one holds what a short phase took. Files of several processes have clocks
of their own, which are set side by side by the moment each began. Readings of one counter are compared, never added.
A phase that a process tells of itself lasts as long as that says; what a printed line would tell of it is not used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from capienza.errors import InputError, Message
from capienza.evidence.vocabulary import PHASES
from capienza.measure.merge import FILE, merged
from capienza.measure.readings import Readings, Span

SAMPLED = "readings.jsonl"
FROM_PROCESS = "process"
WHOLE_RUN = "run"
MAX_SPANS = 1_000_000


class PhasePeak(msgspec.Struct, frozen=True, kw_only=True):
    """The largest reading of one counter in one phase; `phase` "run" is the whole of it, `at` when it was read."""

    phase: str
    counter: str
    scope: str
    unit: str
    value: int
    at: float | None
    source: str
    readings: int


class Peaks(msgspec.Struct, frozen=True):
    """All peaks, the time each phase took, what was not read, and the phase that a process began last and left open."""

    peaks: tuple[PhasePeak, ...]
    phases: dict[str, float]
    notes: tuple[Message, ...]
    left_open: str | None = None


def peaks_of(folder: Path, scopes: Mapping[str, str]) -> Peaks:
    """The peaks of all readings in a run's folder. A file that is none is a finding, and left out.

    `scopes` says which GPU has which digest of its UUID: processes number their GPUs on their own.
    """
    notes: list[Message] = []
    sampled = _opened(folder / SAMPLED, notes)
    others = [_opened(path, notes) for path in sorted(folder.iterdir()) if FILE.fullmatch(path.name)]
    files = [one for one in (sampled, *others) if one is not None]
    started = files[0].header.started if files else None
    shifts = [(one, (one.header.started - started).total_seconds()) for one in files if started is not None]
    spans = _spans(shifts, notes)
    best: dict[tuple[str, str, str], PhasePeak] = {}
    try:
        found = [*(_of_file(sampled, spans) if sampled else ()), *_from_inside(folder, scopes, notes)]
    except InputError as error:
        notes.append(error.message)
        found = []
    for peak in found:
        key = peak.phase, peak.counter, peak.scope
        best[key] = _larger(best[key], peak) if key in best else peak
    notes += [note for one in files for note in one.findings]
    order = [*PHASES, WHOLE_RUN]
    peaks = sorted(best.values(), key=lambda peak: (order.index(peak.phase), peak.counter, peak.scope))
    return Peaks(tuple(peaks), _durations(spans), tuple(dict.fromkeys(notes)), _left_open(spans))


def _opened(path: Path, notes: list[Message]) -> Readings | None:
    try:
        return Readings(path)
    except InputError as error:
        notes.append(error.message)
    except FileNotFoundError:
        pass
    return None


def _from_inside(folder: Path, scopes: Mapping[str, str], notes: list[Message]) -> Iterator[PhasePeak]:
    """The peaks that instrumented processes state of their own phases."""
    inside = merged(folder)
    notes += inside.findings
    for peak in inside.peaks:
        if peak.phase in PHASES:
            own = "process:command" if peak.gpu is None else f"gpu:{peak.gpu}"
            yield PhasePeak(
                phase=peak.phase, counter=peak.counter, scope=scopes.get(peak.device or "", own), unit="B",
                value=peak.peak_bytes, at=None, source=peak.source, readings=peak.count,
            )  # fmt: skip


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
    told = {span.phase for span in spans if span.source == FROM_PROCESS}
    kept = (span for span in spans if span.source == FROM_PROCESS or span.phase not in told)
    return sorted(kept, key=lambda span: span.start)


def _durations(spans: list[Span]) -> dict[str, float]:
    found: dict[str, float] = {}
    for span in spans:
        if span.end is not None:
            found[span.phase] = round(found.get(span.phase, 0.0) + span.end - span.start, 3)
    return found


def _left_open(spans: list[Span]) -> str | None:
    """A process that is killed leaves the phase that it was in without an end."""
    return next((span.phase for span in reversed(spans) if span.end is None and span.source == FROM_PROCESS), None)


def _of_file(found: Readings, spans: list[Span]) -> Iterator[PhasePeak]:
    """Go through the readings once. For each counter, the spans that have begun and are not over yet are open."""
    state: dict[tuple[str, str], tuple[int, list[Span]]] = {}
    best: dict[tuple[str, str, str], PhasePeak] = {}
    for one in found.readings():
        counter = one.counter
        first, last = one.first, one.last
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
