"""Measured peaks against a card's capacity: how much room the fullest counter left (DESIGN rules 3 and 4).

Legend: usable what the card can report, less what others use; room usable - reading, in bytes, per GPU.
Device and process readings compare with the reported capacity, allocated and reserved with the CUDA total
minus the context. Readings are never added; each is compared alone, and the smallest room is what counts.
"""

from __future__ import annotations

import msgspec

from capienza.card.model import Card
from capienza.decide.case import Case
from capienza.evidence.claims import CONTEXT, PEAK, find, wholes
from capienza.evidence.record import Record
from capienza.ledger.phase import INFERENCE_PHASES, TRAINING_PHASES, Phase

DRIVER_COUNTERS = ("device", "process")
ALLOCATOR_COUNTERS = ("allocated", "reserved")


class Cycle(msgspec.Struct, frozen=True, kw_only=True):
    """What a record's peaks come to. `room_bytes` None: none of them can be compared.

    `missing` are phases without a reading on some GPU, `incomparable` those whose counters have no capacity to be
    compared with. `exceeds_largest`: some reading is above the most that a GPU of this name can report.
    """

    room_bytes: int | None
    exceeds_largest: bool
    missing: tuple[str, ...]
    incomparable: tuple[str, ...]

    @property
    def is_complete(self) -> bool:
        """Is every phase that matters covered on every GPU?"""
        return self.room_bytes is not None and not self.missing and not self.incomparable


def needed_phases(card: Card) -> tuple[Phase, ...]:
    """The phases of a complete cycle. A training option such as `eval: none` leaves that phase out.

    Reinforcement learning writes completions in between, on the same GPUs unless a server does.
    """
    if card.task == "inference":
        return INFERENCE_PHASES
    options = card.training.options if card.training else {}
    is_elsewhere = "server" in str(options.get("rollout")) or options.get("vllm_mode") == "server"
    writes = options.get("objective") == "grpo" and not is_elsewhere
    first, *rest = TRAINING_PHASES
    phases = (first, Phase.PREFILL, Phase.DECODE, *rest) if writes else TRAINING_PHASES
    return tuple(phase for phase in phases if options.get(phase.value) != "none")


def cycle_of(case: Case, record: Record, gpus: int) -> Cycle:
    """Compare every peak of the record, of whatever phase, with the capacity its counter belongs to."""
    limits = limits_of(case, record)
    largest = case.sizing.capacity.largest_usable_bytes if case.sizing.capacity else None
    exceeds_largest = False
    rooms: list[int] = []
    seen: dict[tuple[str | None, int], bool] = {}
    for claim in find(record, PEAK):
        if not isinstance(claim.value, int):
            continue
        limit = limits.get(claim.counter or "")
        exceeds_largest |= largest is not None and claim.value > largest
        spot = (claim.phase, claim.gpu_index or 0)
        seen[spot] = seen.get(spot, False) or limit is not None
        if limit is not None:
            rooms.append(limit - claim.value)
    spots = [(phase.value, gpu) for phase in needed_phases(case.card) for gpu in range(gpus)]
    return Cycle(
        room_bytes=min(rooms, default=None),
        exceeds_largest=exceeds_largest,
        missing=_phases(spot for spot in spots if spot not in seen),
        incomparable=_phases(spot for spot in spots if spot in seen and not seen[spot]),
    )


def limits_of(case: Case, record: Record) -> dict[str, int]:
    """Usable bytes by counter; a counter whose capacity is not known is left out."""
    capacity = case.sizing.capacity
    if capacity is None:
        return {}
    limits: dict[str, int] = {}
    if capacity.smallest_usable_bytes is not None:
        limits |= dict.fromkeys(DRIVER_COUNTERS, capacity.smallest_usable_bytes)
    stated = [size for size in (*wholes(record, CONTEXT), case.sizing.context_bytes) if size is not None]
    if capacity.cuda_total_bytes is not None and stated:
        usable = capacity.cuda_total_bytes - max(stated) - capacity.others_use_bytes
        limits |= dict.fromkeys(ALLOCATOR_COUNTERS, usable)
    return limits


def _phases(spots: object) -> tuple[str, ...]:
    return tuple(dict.fromkeys(phase for phase, _ in spots))  # type: ignore[attr-defined]
