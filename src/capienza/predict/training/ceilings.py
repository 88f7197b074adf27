"""Ceilings from measured cases, counter by counter: what 95 % of them lie below.

Legend: w the weights; A, R, D what is expected to be allocated, reserved, used on the device in a phase; f the factor
of each counter that the calibration gives (`groups`); T CUDA's total, the most that a process can have.
    spread         (f_A - 1) (A - w), an entry of its own: above the entries that the allocator holds
    cached         its ceiling is what is left of f_R R above that
    device_spread  what is left of f_D D above both and all that lies outside of the allocator, an entry of its own
What is cached is given back before anything fails, and no reading goes beyond the card: these two end at T. What must
be there may reach beyond it.
Without a measured case twice the part that is not exact is taken, as for engines, and the entry says so.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import msgspec

from capienza.errors import phrase
from capienza.ledger.counters import CONTEXT, DEVICE_SPREAD, OUTSIDE
from capienza.ledger.entry import Entry
from capienza.ledger.ledger import CACHED
from capienza.ledger.phase import Phase
from capienza.predict.calibration import shipped
from capienza.predict.training import texts
from capienza.predict.training.entries import Phases, estimated
from capienza.predict.training.groups import Behind, behind, counter_of
from capienza.recipe.recipe import Recipe
from capienza.units import Range

SPREAD = "measured_spread"
ALLOCATED, RESERVED, DEVICE = "allocated_peak", "reserved_peak", "device_peak"
CASES = phrase("calibration.json, written by capienza calibrate")


def factor_of(counter: str, recipe: Recipe, is_assumed: bool) -> Behind:
    """Ceiling over expected of a counter, for trainings of this framework, with these kernels, of this method."""
    preference = recipe.preference
    if counter == DEVICE and preference is not None and preference.rollout == "vllm_colocate":
        return behind(shipped(), recipe.framework, "rl.training", is_assumed=is_assumed)
    quantity = f"training.{counter_of(counter, recipe)}.{recipe.method}"
    return behind(shipped(), recipe.framework, quantity, kernels=recipe.kernels, is_assumed=is_assumed)


def widened(
    made: Sequence[Entry],
    weights_bytes: int,
    recipe: Recipe,
    phases: Phases,
    device: str,
    cuda_total_bytes: int | None,
    *,
    is_assumed: bool = False,
) -> list[Entry]:
    """The entries of one GPU with their ceilings, and the spreads of each phase; weights stand beside them.

    `is_assumed`: the kernels of the passes were compared with no trace.
    """
    end = sys.maxsize if cuda_total_bytes is None else cuda_total_bytes
    allocated, reserved, on_device = (factor_of(one, recipe, is_assumed) for one in (ALLOCATED, RESERVED, DEVICE))
    mine = [one for one in made if one.device == device and one.amount is not None]
    entries = list(made)
    for phase in phases:
        live = [one for one in mine if phase in one.phases]
        inside = [one for one in live if one.name not in OUTSIDE and one.name != CACHED]
        spread = _spread(inside, allocated, phase, device)
        entries.append(spread)
        known = weights_bytes + sum(_expected(one) for one in inside)
        outside = [one for one in live if one.name in OUTSIDE]
        needed = weights_bytes + sum(map(_ceiling, (*inside, spread, *outside)))
        lifted = list(_cached(live, known, _ceiling(spread), reserved, end - needed))
        for before, after in lifted:
            entries[entries.index(before)] = after
        held = known + sum(_expected(one) for one, _ in lifted) + sum(map(_expected, outside))
        most = needed + sum(_ceiling(one) for _, one in lifted)
        if any(one.name == CONTEXT for one in outside):
            beyond = min(_beyond(held, most, outside, on_device), end - most)
            entries += [_device_spread(held, beyond, on_device, phase, device)] if beyond > 0 else []
    return entries


def _expected(entry: Entry) -> int:
    return 0 if entry.amount is None else entry.amount.expected


def _ceiling(entry: Entry) -> int:
    return 0 if entry.amount is None else entry.amount.ceiling


def _spread(inside: Sequence[Entry], factor: Behind, phase: Phase, device: str) -> Entry:
    """How far the phase's allocated bytes may lie above the expected ones."""
    above = sum(_expected(one) for one in inside)
    if factor.cases:
        formula = texts.SPREAD(behind=factor.told(), factor=_shown(factor), above_bytes=above)
    else:
        above = sum(_expected(one) for one in inside if one.amount is not None and not one.amount.is_exact)
        formula = texts.NO_CASES(expected_bytes=above)
    return estimated(SPREAD, (phase,), device, Range(0, 0, int(above * (factor.value - 1))), formula, CASES)


def _cached(live: Sequence[Entry], known: int, spread: int, factor: Behind, room: int) -> Iterator[tuple[Entry, Entry]]:
    """What the allocator keeps, with what the cases of reserved memory reach beyond those of allocated, in `room`."""
    for one in live:
        if one.name != CACHED or one.amount is None:
            continue
        expected = one.amount.expected
        held = known + expected
        beyond = int(held * (factor.value - 1)) - spread if factor.cases else expected
        yield one, _lifted(one, min(expected + max(0, beyond), max(expected, room)), factor, held)


def _beyond(held: int, most: int, outside: Sequence[Entry], factor: Behind) -> int:
    """What the cases of the device reach beyond the ceilings of all that is named."""
    if factor.cases:
        return int(held * factor.value) - most
    return int(sum(map(_expected, outside)) * (factor.value - 1))


def _device_spread(held: int, beyond: int, factor: Behind, phase: Phase, device: str) -> Entry:
    """How far the driver's reading may lie above all that is named."""
    told = factor.told() if factor.cases else None
    formula = (
        texts.NO_CASES(expected_bytes=held)
        if told is None
        else texts.DEVICE_SPREAD(behind=told, factor=_shown(factor), expected_bytes=held)
    )
    return estimated(DEVICE_SPREAD, (phase,), device, Range(0, 0, beyond), formula, CASES)


def _lifted(entry: Entry, ceiling: int, factor: Behind, expected_bytes: int) -> Entry:
    amount = entry.amount
    if amount is None or ceiling <= amount.ceiling:
        return entry
    formula = entry.formula
    if factor.cases and formula is not None:
        told = factor.told()
        formula = texts.CEILING(formula=formula, behind=told, factor=_shown(factor), expected_bytes=expected_bytes)
    return msgspec.structs.replace(entry, amount=Range(amount.floor, amount.expected, ceiling), formula=formula)


def _shown(factor: Behind) -> str:
    return f"{factor.value:.3f}"
