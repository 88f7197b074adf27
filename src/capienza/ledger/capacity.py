"""What a GPU offers, and the fit words (DESIGN rules 3 and 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from capienza.errors import Message, template
from capienza.ledger.ledger import Total
from capienza.truth import Truth
from capienza.units import MIB

if TYPE_CHECKING:
    from capienza.catalog.capacity import GpuCapacity

USUAL_CUDA_TOTAL = template(
    "capacity.usual-cuda-total", "CUDA's total, estimated as its usual share of what the driver reports: {basis}"
)
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


def for_training(capacity: Capacity) -> Capacity:
    """The same where PyTorch's allocator is what has to fit: it can have what CUDA reports, which is a little less.

    Where nobody collected that total of the card it is estimated from the driver's, as for engines (decision 0008).
    """
    if capacity.smallest_bytes is None:
        return capacity
    from capienza.catalog.basis import CUDA_SEEN
    from capienza.catalog.devices import usual_cuda_share

    total = capacity.cuda_total_bytes
    if total is None:
        total = int(capacity.smallest_bytes * usual_cuda_share())
        basis = USUAL_CUDA_TOTAL(basis=capacity.smallest_basis)
    else:
        basis = CUDA_SEEN(mib=total // MIB)
    if total >= capacity.smallest_bytes:
        return capacity
    return msgspec.structs.replace(capacity, smallest_bytes=total, smallest_basis=basis)


def useful_margin(peak: Total, capacity: Capacity) -> int | None:
    """Usable capacity minus the ceiling of the peak; None where no capacity is known.

    Of a peak that lacks entries an upper bound, which only the largest capacity keeps true.
    """
    usable = capacity.smallest_usable_bytes if peak.is_complete else capacity.largest_usable_bytes
    return None if usable is None else usable - peak.amount.ceiling


def _less(capacity_bytes: int | None, used_bytes: int) -> int | None:
    return None if capacity_bytes is None else max(0, capacity_bytes - used_bytes)


def fit_word(peak: Total, capacity: Capacity, margin_bytes: int) -> FitWord:
    """Predicted fit, borderline or predicted overflow (DESIGN rule 6).

    Overflow when the expected need (without what an allocator would give back) is above what even the largest such
    GPU offers; fit when ceiling plus margin is within the smallest and nothing is missing. A ceiling that ends where
    the card does was cut there, for what an allocator keeps ends there: it shows no room.
    """
    largest = capacity.largest_usable_bytes
    if largest is not None and peak.need_bytes > largest:
        return "overflow"
    usable = capacity.smallest_usable_bytes
    if usable is None or not peak.is_complete:
        return "borderline"
    left = usable - peak.amount.ceiling - margin_bytes
    is_cut = left == 0 and peak.cached_bytes > 0
    return "fit" if left >= 0 and not is_cut else "borderline"


def bounded_word(word: FitWord, *, is_refused: bool, is_covered: bool | None) -> FitWord:
    """What an engine's own pool leaves of a word: it may refuse to start, or hold less than the load at once."""
    if is_refused:
        return "overflow"
    return "borderline" if word == "fit" and is_covered is False else word


def exceeds(peak: Total, capacity: Capacity) -> Truth:
    """Is the provable floor above the largest capacity? TRUE is a proof of exclusion; arithmetic never says FALSE."""
    largest = capacity.largest_usable_bytes
    return Truth.TRUE if largest is not None and peak.amount.floor > largest else Truth.UNKNOWN
