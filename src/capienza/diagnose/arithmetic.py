"""What the figures of a failure show, as arithmetic.

Legend: A bytes asked for, T total of the card, F free, U allocated in the pool, R reserved and not allocated, O held by
other processes. Fragmentation: R >= A while F < A, and clearly so, because R is scattered and its sum is an upper bound
of what could be had in one piece. Another process: with O given back, F + O >= A. Roomy: F >= 2 A, or F >= A where
nearly all of T is free, so that the refusal is no lack of memory. Shared: a GPU that has no memory of its own,
as AMD's and Intel's drivers also serve, counts what the host uses as taken; nothing tells it from another process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from capienza.errors import Message, template

if TYPE_CHECKING:
    from capienza.diagnose.diagnosis import Diagnosis

LARGE_SHARE = 10
"""R must be at least the tenth part of the pool: any pool in use holds some of it."""
EMPTY_OF = 20
"""A card is as good as empty when all but one of so many parts are free."""
CLEARLY = (5, 4)
"""R must be at least this many times A: near equality, rounding and block sizes decide."""
LEAST_OUTSIDE_BYTES = 2 * 2**30
"""What lies outside the pool unexplained is another's only above this: context and libraries take the rest."""

FRAGMENTED = template(
    "diagnose.fragmented",
    "fragmentation explains it: {unallocated_bytes} are reserved and unallocated, {requested_bytes} are asked, "
    "{free_bytes} are free",
)
NOT_FRAGMENTED = template(
    "diagnose.not-fragmented",
    "fragmentation does not explain it: {unallocated_bytes} reserved and unallocated are less than the "
    "{requested_bytes} asked",
)
NEAR_FRAGMENTED = template(
    "diagnose.near-fragmented",
    "fragmentation may be part of it: {unallocated_bytes} reserved and unallocated are barely the {requested_bytes} "
    "asked",
)
SMALL_PART = template(
    "diagnose.small-part",
    "fragmentation may be part of it: {unallocated_bytes} reserved and unallocated are more than the {requested_bytes} "
    "asked, but less than a tenth of the pool: any pool in use holds some",
)
OTHERS = template(
    "diagnose.others",
    "other processes explain it: they hold {others_bytes}; with the {free_bytes} free that is {sum_bytes}, and "
    "{requested_bytes} are asked",
)
OTHERS_NOT_ENOUGH = template(
    "diagnose.others-not-enough",
    "other processes do not explain it: the {others_bytes} that they hold and the {free_bytes} free are less than the "
    "{requested_bytes} asked",
)
OUTSIDE = template(
    "diagnose.outside",
    "{outside_bytes} of the card are neither free nor in this pool: total {total_bytes} - free {free_bytes} - pool "
    "{pool_bytes}; context, libraries or other processes",
)
ROOMY = template(
    "diagnose.roomy",
    "the card is not full: {free_bytes} are free and {requested_bytes} are asked; a limit of the driver, an address "
    "space or another error behind the message",
)
SHORT = template("diagnose.short", "short by {short_bytes}: {requested_bytes} asked - {free_bytes} free")
BEYOND_CARD = template(
    "diagnose.beyond-card", "no card of this size can hold it: {requested_bytes} asked, {total_bytes} in total"
)
UNITS = template(
    "diagnose.units",
    "a mix-up of units explains it: {requested_bytes} asked is above the {total_bytes} in total, and the same number "
    "read in powers of 1000 is below",
)
SHARE = template(
    "diagnose.share", "{requested_bytes} wanted of {total_bytes}, {free_bytes} free: others hold {others_bytes}"
)
TAKEN = template(
    "diagnose.taken",
    "{taken_bytes} of {total_bytes} are taken: this line does not tell how much of it by this process",
)
OUTSIDE_SHARED = template(
    "diagnose.outside-shared",
    "{outside_bytes} are neither free nor in this pool: total {total_bytes} - free {free_bytes} - pool {pool_bytes}; "
    "context, libraries, other processes, or the host where the GPU has no memory of its own",
)
NOT_KNOWN_TO_DRIVER = template(
    "diagnose.zero-process",
    "0 bytes for this process beside {allocated_bytes} allocated: the driver does not know the process by this number, "
    "as inside a container; other processes cannot be told from it",
)


def unallocated(figures: dict[str, int]) -> int | None:
    """R, as printed or as the pool minus what is allocated in it."""
    if "reserved_unallocated_bytes" in figures:
        return figures["reserved_unallocated_bytes"]
    if "reserved_total_bytes" in figures and "allocated_bytes" in figures:
        return max(0, figures["reserved_total_bytes"] - figures["allocated_bytes"])
    return None


def outside(figures: dict[str, int]) -> int | None:
    """T - F - pool: what of the card is neither free nor this pool's."""
    spare = unallocated(figures)
    if spare is None or not {"total_bytes", "free_bytes", "allocated_bytes"} <= figures.keys():
        return None
    return max(0, figures["total_bytes"] - figures["free_bytes"] - figures["allocated_bytes"] - spare)


def is_fragmentation(figures: dict[str, int]) -> bool:
    """R is clearly enough for A, and F is not."""
    spare, asked = unallocated(figures), figures.get("requested_bytes")
    if spare is None or not asked or figures.get("free_bytes", 0) >= asked:
        return False
    return spare * CLEARLY[1] >= asked * CLEARLY[0] and spare * LARGE_SHARE >= spare + figures.get("allocated_bytes", 0)


def may_be_shared(text: str) -> bool:
    """Does a message come from a driver that also serves GPUs without memory of their own?"""
    return "HIP out of memory" in text or "XPU out of memory" in text


def is_other_process(figures: dict[str, int], *, is_shared: bool = False) -> bool:
    """Others hold enough for A, and more than this process's own spare."""
    asked, free = figures.get("requested_bytes"), figures.get("free_bytes")
    if not asked or free is None or free >= asked:
        return False
    others = figures.get("other_process_bytes")
    if others is not None:
        return others + free >= asked and others > (unallocated(figures) or 0)
    if "allocated_bytes" not in figures or is_shared:
        return False
    left, pool = outside(figures), figures["allocated_bytes"] + (unallocated(figures) or 0)
    is_listed = "process_bytes" in figures and figures["process_bytes"] > 0
    return left is not None and left >= LEAST_OUTSIDE_BYTES and left > pool and left + free >= asked and not is_listed


def is_taken(figures: dict[str, int]) -> bool:
    """More than a quarter of the card is taken before this process begins."""
    total, free = figures.get("total_bytes"), figures.get("free_bytes")
    return total is not None and free is not None and (total - free) * 4 > total


def is_roomy(figures: dict[str, int]) -> bool:
    """F >= 2 A, or F >= A where nearly all of T is free."""
    asked, free = figures.get("requested_bytes", 0), figures.get("free_bytes", -1)
    is_empty = free * EMPTY_OF >= figures.get("total_bytes", free + 1) * (EMPTY_OF - 1)
    return asked > 0 and (free >= 2 * asked or (free >= asked and is_empty))


def is_unit_confusion(figures: dict[str, int]) -> bool:
    """A is above T by no more than powers of 1024 are above powers of 1000, and is a whole number of GiB."""
    asked, total = figures.get("requested_bytes"), figures.get("total_bytes")
    if not asked or not total or asked <= total or asked % 2**30:
        return False
    return (asked >> 30) * 10**9 <= total


def explained(found: Diagnosis, figures: dict[str, int]) -> tuple[Message, ...]:
    """The arithmetic of a device's memory, step by step."""
    if found.memory in ("no", "host") and not is_roomy(figures):
        return ()
    is_shared = may_be_shared(found.evidence)
    return tuple(_explanations(figures, is_first=found.phase == "startup", is_shared=is_shared))


def _explanations(figures: dict[str, int], *, is_first: bool, is_shared: bool) -> list[Message]:
    """`is_first`: this process holds nothing yet, so that all that is taken is held by others."""
    asked, free, total = (figures.get(f"{name}_bytes") for name in ("requested", "free", "total"))
    said: list[Message] = []
    if asked is None:
        return said
    if is_roomy(figures):
        assert free is not None
        return [ROOMY(free_bytes=free, requested_bytes=asked)]
    if is_unit_confusion(figures):
        said.append(UNITS(requested_bytes=asked, total_bytes=total))
    elif total is not None and asked > total:
        said.append(BEYOND_CARD(requested_bytes=asked, total_bytes=total))
    if free is not None and asked > free:
        said.append(SHORT(short_bytes=asked - free, requested_bytes=asked, free_bytes=free))
    said += _fragmentation(figures, asked)
    said += _others(figures, asked, is_first=is_first, is_shared=is_shared)
    return said


def _fragmentation(figures: dict[str, int], asked: int) -> list[Message]:
    spare = unallocated(figures)
    if spare is None:
        return []
    if is_fragmentation(figures):
        free = figures.get("free_bytes", 0)
        return [FRAGMENTED(unallocated_bytes=spare, requested_bytes=asked, free_bytes=free)]
    if spare < asked:
        return [NOT_FRAGMENTED(unallocated_bytes=spare, requested_bytes=asked)]
    if figures.get("free_bytes", 0) >= asked:
        return []  # what is free would do: the pool's own is not the question
    words = SMALL_PART if spare * CLEARLY[1] >= asked * CLEARLY[0] else NEAR_FRAGMENTED
    return [words(unallocated_bytes=spare, requested_bytes=asked)]


def _others(figures: dict[str, int], asked: int, *, is_first: bool, is_shared: bool) -> list[Message]:
    others, free = figures.get("other_process_bytes"), figures.get("free_bytes", 0)
    if figures.get("process_bytes") == 0 and figures.get("allocated_bytes"):
        return [NOT_KNOWN_TO_DRIVER(allocated_bytes=figures["allocated_bytes"])]
    if others is not None:
        words = OTHERS if others + free >= asked else OTHERS_NOT_ENOUGH
        return [words(others_bytes=others, free_bytes=free, sum_bytes=others + free, requested_bytes=asked)]
    left = outside(figures)
    if left is not None and left > 2**30:
        pool = figures["allocated_bytes"] + (unallocated(figures) or 0)
        words = OUTSIDE_SHARED if is_shared else OUTSIDE
        return [words(outside_bytes=left, total_bytes=figures["total_bytes"], free_bytes=free, pool_bytes=pool)]
    if "total_bytes" in figures and "allocated_bytes" not in figures and figures["total_bytes"] - free > 2**29:
        total = figures["total_bytes"]
        if not is_first:
            return [TAKEN(taken_bytes=total - free, total_bytes=total)]
        return [SHARE(requested_bytes=asked, total_bytes=total, free_bytes=free, others_bytes=total - free)]
    return []
