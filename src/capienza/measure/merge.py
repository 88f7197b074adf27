"""The readings of all the processes of one run, merged by rank: the peak of each phase, counter and GPU.

Legend: rank the number of a process under torchrun. Processes number their GPUs on their own, so a GPU is told by the
digest of its UUID, and by rank and number where there is none; GPUs are counted in the order of the ranks that used
them. Two processes on one GPU keep a peak each: peaks of different moments are not added.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from capienza.errors import Message, template
from capienza.ledger.phase import Phase
from capienza.measure.readings import Counter, Readings

FILE = re.compile(r"readings\.[0-9]+(\.[0-9]+\.[0-9]+)?\.jsonl")
ORDER = {phase.value: index for index, phase in enumerate(Phase)}

RANKS_MISSING = template(
    "measure.ranks-missing",
    "no readings of rank {ranks}, though there are some of rank {last}: the peaks of its GPU are unknown",
    "start every process with the same CAPIENZA_RUN, and gather the folders of all machines into one",
)
PHASES_MISSING = template(
    "measure.rank-phases-missing",
    "rank {rank} has no reading of {phases}, which other ranks have",
    "see in its own output where that process ended",
)
UNFINISHED = template(
    "measure.phase-unfinished",
    "rank {rank}: {phase} began and did not end",
    "the run ended there; capienza diagnose of its output may say why",
)


class Peak(msgspec.Struct, frozen=True, kw_only=True):
    """The highest reading of one counter in all the phases of one name, in one process.

    `gpu` counts the GPUs of the run from 0; None for main memory. `device`: digest of its UUID. `count` is how many
    times the phase was read.
    """

    phase: str
    counter: str
    source: str
    gpu: int | None
    rank: int
    device: str | None
    peak_bytes: int
    count: int


class Merged(msgspec.Struct, frozen=True):
    """All peaks, in the order of phase, GPU, counter and rank, and what is missing from them."""

    peaks: tuple[Peak, ...]
    findings: tuple[Message, ...]


def merged(folder: Path) -> Merged:
    """Read every `readings.<rank>.jsonl` of a run. Raises `InputError` for one that is no file of readings."""
    readings = [Readings(path) for path in sorted(folder.iterdir()) if FILE.fullmatch(path.name)]
    readings.sort(key=_rank)
    highest = _highest(readings)
    gpus = _numbered(highest)
    peaks = [
        Peak(
            phase=counter.peak_of or Phase.UNKNOWN.value,
            counter=counter.name,
            source=counter.source,
            gpu=gpus.get(_card(rank, counter)),
            rank=rank,
            device=counter.device,
            peak_bytes=value,
            count=count,
        )
        for (rank, counter), (value, count) in highest.items()
    ]
    peaks.sort(key=lambda peak: (_order(peak.phase), -1 if peak.gpu is None else peak.gpu, peak.counter, peak.rank))
    return Merged(tuple(peaks), tuple(_findings(readings, peaks)))


def _highest(readings: Iterable[Readings]) -> dict[tuple[int, Counter], tuple[int, int]]:
    """Highest value and number of readings, by rank and counter."""
    found: dict[tuple[int, Counter], tuple[int, int]] = {}
    for one in readings:
        for reading in one.readings():
            if reading.counter.peak_of is not None:
                key = (_rank(one), reading.counter)
                value, count = found.get(key, (0, 0))
                found[key] = (max(value, reading.value), count + reading.count)
    return found


def _rank(readings: Readings) -> int:
    return readings.header.rank or 0


def _card(rank: int, counter: Counter) -> str:
    return counter.device or f"{rank} {counter.scope}"


def _numbered(found: Iterable[tuple[int, Counter]]) -> dict[str, int]:
    """The GPUs of the run, counted in the order of rank and of the number each process gives them."""
    on_gpus = [(rank, counter) for rank, counter in found if counter.scope.startswith("gpu:")]
    on_gpus.sort(key=lambda one: (one[0], len(one[1].scope), one[1].scope))
    cards = dict.fromkeys(_card(rank, counter) for rank, counter in on_gpus)
    return {card: index for index, card in enumerate(cards)}


def _order(phase: str) -> tuple[int, str]:
    return ORDER.get(phase, len(ORDER)), phase


def _findings(readings: list[Readings], peaks: list[Peak]) -> Iterator[Message]:
    ranks = {_rank(one) for one in readings}
    missing = sorted(set(range(max(ranks, default=0))) - ranks)
    if missing:
        yield RANKS_MISSING(ranks=tuple(map(str, missing)), last=max(ranks))
    everywhere = sorted({peak.phase for peak in peaks}, key=_order)
    for rank in sorted(ranks):
        here = {peak.phase for peak in peaks if peak.rank == rank}
        lacking = tuple(phase for phase in everywhere if phase not in here)
        if lacking:
            yield PHASES_MISSING(rank=rank, phases=lacking)
    for one in readings:
        for span in one.phases():
            if span.end is None:
                yield UNFINISHED(rank=_rank(one), phase=span.phase)
        yield from one.findings
