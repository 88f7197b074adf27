"""The ledger: entries, and the totals that may be drawn from them (DESIGN rules 1, 4, 5).

A peak adds only what is live together, on one device, in one phase. A total that lacks an entry says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

import msgspec

from capienza.ledger.entry import Entry
from capienza.ledger.phase import Phase
from capienza.units import NOTHING, Range

WEIGHTS, CACHED = "weights", "cached"


class Total(msgspec.Struct, frozen=True):
    """A sum. With `missing` entries it reads "at least": their bytes are not in it.

    `cached_bytes` of what is expected are kept by an allocator that gives them back before it fails.
    """

    amount: Range
    missing: tuple[str, ...] = ()
    cached_bytes: int = 0

    @property
    def need_bytes(self) -> int:
        """What is expected to be needed: a card without room for more runs it."""
        return self.amount.expected - self.cached_bytes

    @property
    def is_complete(self) -> bool:
        """No unknown entry was left out."""
        return not self.missing


class Peak(msgspec.Struct, frozen=True):
    """What one GPU needs in one phase."""

    phase: Phase
    device: str
    total: Total


def total_of(entries: Iterable[Entry]) -> Total:
    """Sum of entries that are live together."""
    amount, missing, cached = NOTHING, [], 0
    for entry in entries:
        if entry.amount is None:
            missing.append(entry.name)
        else:
            amount = amount + entry.amount
            cached += entry.amount.expected if entry.name == CACHED else 0
    return Total(amount, tuple(missing), cached)


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """All entries of one configuration. `gpus` are the devices that a figure is asked for."""

    entries: tuple[Entry, ...]
    gpus: tuple[str, ...] = ("gpu:0",)

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The phases that any entry lives in, in the order of a run."""
        present = {phase for entry in self.entries for phase in entry.phases}
        return tuple(phase for phase in Phase if phase in present)

    def on(self, device: str) -> tuple[Entry, ...]:
        """The entries of a device."""
        return tuple(entry for entry in self.entries if entry.device == device)

    def peak(self, phase: Phase, device: str) -> Total:
        """What the device needs in that phase: the entries that are live together."""
        return total_of(entry for entry in self.on(device) if phase in entry.phases)

    def peaks(self, device: str) -> tuple[Peak, ...]:
        """The need of every phase on a device, in the order of a run."""
        entries, phases = self.on(device), self.phases
        return tuple(Peak(phase, device, total_of(e for e in entries if phase in e.phases)) for phase in phases)

    def predicted_peak(self, device: str) -> Total:
        """The largest need over the phases, figure by figure; what is missing in any phase is missing here."""
        peaks = [peak.total for peak in self.peaks(device)]
        amount = reduce(Range.largest, (peak.amount for peak in peaks), NOTHING)
        need = max((peak.need_bytes for peak in peaks), default=0)
        missing = tuple(dict.fromkeys(name for peak in peaks for name in peak.missing))
        return Total(amount, missing, amount.expected - need)

    def weights_only(self, device: str = "gpu:0") -> Total:
        """Parameters times bits on one device, nothing else."""
        return total_of(entry for entry in self.on(device) if entry.name == WEIGHTS)

    def indicative_envelope(self, reserve_bytes: int, device: str = "gpu:0") -> Total:
        """Weights only plus the chosen reserve. Not a peak (DESIGN rule 6)."""
        weights = self.weights_only(device)
        return Total(weights.amount + Range.exact(reserve_bytes), weights.missing)

    def conservative_envelope(self, device: str = "gpu:0") -> Total:
        """Sum of every entry's maximum, live together or not. Declared as such; not a peak.

        An entry that has one line a phase is one entry: its maximum is that of the phase in which it is largest.
        """
        total = total_of(self.on(device))
        by_name: dict[str, list[Entry]] = {}
        for entry in self.on(device):
            by_name.setdefault(entry.name, []).append(entry)
        most = sum(_most(same) for same in by_name.values())
        return Total(Range.exact(most), total.missing)


def _most(lines: Sequence[Entry]) -> int:
    """The largest ceiling that lines of one name reach together in a phase."""
    phases = {phase for line in lines for phase in line.phases}
    return max((total_of(one for one in lines if phase in one.phases).amount.ceiling for phase in phases), default=0)
