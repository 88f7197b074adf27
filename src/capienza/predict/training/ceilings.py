"""Ceilings from measured cases, counter by counter: what 95 % of them lie below.

Legend: A, R, D what is expected to be allocated, reserved, used on the device in a phase; f the factor of each counter
that the calibration gives for the method.
    spread   f_A A - A, an entry of its own: above the entries that the allocator holds
    cached   its ceiling is what is left of f_R R above f_A A
    context  f_D times its reading
Without a measured case twice the part that is not exact is taken, as for engines, and the entry says so.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from capienza.ledger.counters import CONTEXT, OUTSIDE
from capienza.ledger.entry import Entry
from capienza.ledger.ledger import CACHED
from capienza.ledger.phase import Phase
from capienza.predict.calibration import Factor, shipped
from capienza.predict.training import texts
from capienza.predict.training.entries import Phases, estimated
from capienza.recipe.recipe import Recipe
from capienza.units import Range

TRAINING = "training"
SPREAD = "measured_spread"
ALLOCATED, RESERVED, DEVICE = "allocated_peak", "reserved_peak", "device_peak"
CASES = "calibration.json, written by capienza calibrate"


def factor_of(counter: str, recipe: Recipe, without: str = "") -> Factor:
    """Ceiling over expected of a counter, for trainings of this method."""
    return shipped().factor(TRAINING, f"{TRAINING}.{counter}.{recipe.method}", without)


def widened(made: Sequence[Entry], weights_bytes: int, recipe: Recipe, phases: Phases, device: str) -> list[Entry]:
    """The entries of one GPU with their ceilings, and the spread of each phase; weights stand beside them."""
    allocated, reserved, on_device = (factor_of(counter, recipe) for counter in (ALLOCATED, RESERVED, DEVICE))
    entries = list(made)
    for phase in phases:
        live = [one for one in made if one.device == device and phase in one.phases and one.amount is not None]
        inside = [one for one in live if one.name not in OUTSIDE and one.name != CACHED]
        known = weights_bytes + sum(_expected(one) for one in inside)
        open_bytes = sum(_expected(one) for one in inside if one.amount is not None and not one.amount.is_exact)
        more = int(known * (allocated.value - 1)) if allocated.cases else int(open_bytes * (allocated.value - 1))
        formula = (
            texts.SPREAD(
                cases=allocated.cases, method=recipe.method, factor=f"{allocated.value:.3f}", expected_bytes=known
            )
            if allocated.cases
            else texts.NO_CASES(expected_bytes=open_bytes)
        )
        entries.append(estimated(SPREAD, (phase,), device, Range(0, 0, more), formula, CASES))
        _raise(entries, phase, CACHED, known, more, reserved)
    return [_context(one, on_device) for one in entries]


def _expected(entry: Entry) -> int:
    return 0 if entry.amount is None else entry.amount.expected


def _raise(entries: list[Entry], phase: Phase, name: str, known: int, more: int, factor: Factor) -> None:
    """Lift the ceiling of a phase's entry to what its counter's cases reach beyond the counter before."""
    for place, one in enumerate(entries):
        if one.name != name or phase not in one.phases or one.amount is None:
            continue
        amount = one.amount
        beyond = int((known + amount.expected) * (factor.value - 1)) - more if factor.cases else amount.expected
        ceiling = amount.expected + max(0, beyond)
        entries[place] = msgspec.structs.replace(one, amount=Range(amount.floor, amount.expected, ceiling))


def _context(entry: Entry, factor: Factor) -> Entry:
    """The reading, times the factor of the device's cases; without any twice the reading, as for engines."""
    if entry.name != CONTEXT or entry.amount is None:
        return entry
    amount = entry.amount
    ceiling = int(amount.expected * factor.value)
    return msgspec.structs.replace(entry, amount=Range(amount.floor, amount.expected, max(amount.expected, ceiling)))
