"""What a GPU offers, and the fit words (DESIGN rules 3 and 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from capienza.errors import Message
from capienza.ledger.ledger import Total
from capienza.truth import Truth

if TYPE_CHECKING:
    from capienza.catalog.capacity import GpuCapacity

FitWord = Literal["fit", "borderline", "overflow"]


class Capacity(msgspec.Struct, frozen=True, kw_only=True):
    """Capacities of one GPU in bytes, each with its basis; None is unknown.

    `largest_bytes` is the most that any GPU the name may mean can report; `smallest_bytes` the least.
    `others_use_bytes` is what the card says other programs take.
    """

    largest_bytes: int | None
    largest_basis: Message
    smallest_bytes: int | None
    smallest_basis: Message
    cuda_total_bytes: int | None = None
    others_use_bytes: int = 0

    @property
    def largest_usable_bytes(self) -> int | None:
        """Usable capacity for *exclude*; None when it is not known."""
        return _less(self.largest_bytes, self.others_use_bytes)

    @property
    def smallest_usable_bytes(self) -> int | None:
        """Usable capacity for *fit*; None when it is not known."""
        return _less(self.smallest_bytes, self.others_use_bytes)


def capacity_from(gpu: GpuCapacity, others_use_bytes: int) -> Capacity:
    """The catalogue's capacities beside what the card says others use."""
    return Capacity(
        largest_bytes=gpu.largest_bytes,
        largest_basis=gpu.largest_basis,
        smallest_bytes=gpu.smallest_bytes,
        smallest_basis=gpu.smallest_basis,
        cuda_total_bytes=gpu.cuda_total_bytes,
        others_use_bytes=others_use_bytes,
    )


def _less(capacity_bytes: int | None, used_bytes: int) -> int | None:
    return None if capacity_bytes is None else max(0, capacity_bytes - used_bytes)


def fit_word(peak: Total, capacity: Capacity, margin_bytes: int) -> FitWord:
    """Predicted fit, borderline or predicted overflow (DESIGN rule 6).

    Overflow when the expected need (without what an allocator would give back) is above what even the largest such
    GPU offers; fit when ceiling plus margin is within the smallest and nothing is missing.
    """
    largest = capacity.largest_usable_bytes
    if largest is not None and peak.need_bytes > largest:
        return "overflow"
    usable = capacity.smallest_usable_bytes
    if usable is not None and peak.is_complete and peak.amount.ceiling + margin_bytes <= usable:
        return "fit"
    return "borderline"


def bounded_word(word: FitWord, *, is_refused: bool, is_covered: bool | None) -> FitWord:
    """What an engine's own pool leaves of a word: it may refuse to start, or hold less than the load at once."""
    if is_refused:
        return "overflow"
    return "borderline" if word == "fit" and is_covered is False else word


def exceeds(peak: Total, capacity: Capacity) -> Truth:
    """Is the provable floor above the largest capacity? TRUE is a proof of exclusion; arithmetic never says FALSE."""
    largest = capacity.largest_usable_bytes
    return Truth.TRUE if largest is not None and peak.amount.floor > largest else Truth.UNKNOWN
