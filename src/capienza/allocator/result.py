"""What a replay found."""

from __future__ import annotations

import msgspec


class Peaks(msgspec.Struct, frozen=True):
    """The highest readings of one span of events, each at its own moment; `*_event` is the first event that reached it.

    allocated   blocks in the program's hands, rounded (torch.cuda.max_memory_allocated)
    requested   the same blocks, as asked for
    active      allocated, and blocks let go that another stream still uses
    reserved    what the allocator holds from the device (torch.cuda.max_memory_reserved)
    """

    name: str
    first_event: int
    allocated_bytes: int
    allocated_event: int
    requested_bytes: int
    active_bytes: int
    reserved_bytes: int
    reserved_event: int
    allocated_at_reserved_bytes: int
    """Allocated when reserved was highest; the difference to reserved is fragmentation and cache."""
    inactive_split_at_reserved_bytes: int | None
    """Of that difference, what lies in segments that are partly in use: emptying the cache cannot give it back.
    None with expandable segments: there any free page can go back, and PyTorch keeps no such figure."""


class OutOfMemory(msgspec.Struct, frozen=True):
    """The allocation that failed, with the figures PyTorch's message would print."""

    event: int
    phase: str
    requested_bytes: int
    tried_bytes: int
    """What the allocator asked the device for: "Tried to allocate"."""
    allocated_bytes: int
    """In the program's hands: "allocated by PyTorch", there with what private pools keep cached added."""
    private_pools_bytes: int
    """Cached in private pools: "allocated in private pools"."""
    reserved_bytes: int
    capacity_bytes: int | None
    allowed_bytes: int | None
    """What set_per_process_memory_fraction allows."""

    @property
    def free_bytes(self) -> int | None:
        """What the device still had; None where no capacity was given."""
        return None if self.capacity_bytes is None else self.capacity_bytes - self.reserved_bytes

    @property
    def reserved_unallocated_bytes(self) -> int:
        """Cached, outside private pools: "reserved by PyTorch but unallocated"."""
        return self.reserved_bytes - self.allocated_bytes - self.private_pools_bytes


class Replay(msgspec.Struct, frozen=True):
    """A program run through the allocator: peaks of the whole and of each phase in order, and how it ended."""

    peaks: Peaks
    phases: tuple[Peaks, ...]
    """One for each MARK, in order, and before them one without a name if events come before the first."""
    events: int
    """Events that ran: all of them, or those before the one that ran out of memory."""
    device_allocations: int
    """Calls of cudaMalloc, or with expandable segments of physical mappings."""
    device_frees: int
    final_allocated_bytes: int
    final_reserved_bytes: int
    out_of_memory: OutOfMemory | None = None
