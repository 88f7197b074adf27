"""What is written down while a program is traced: every storage from its birth to its death.

Legend: a block is a storage of one device; its number is its place in the lists of `Recording`. `events` are those of
`capienza.allocator.events`, per device, in the order in which they happened; a block's birth and death are places in
the events of its device. `None` in `died` means alive at the end.
"""

from __future__ import annotations

import msgspec

from capienza.allocator.events import ALLOC, EMPTY_CACHE, FREE, MARK

Event = tuple[int, int, int, int]
STREAM = 0


class Recording(msgspec.Struct):
    """Blocks and events of one traced program. The lists of blocks are of equal length."""

    events: dict[int, list[Event]] = msgspec.field(default_factory=dict)
    phases: list[str] = msgspec.field(default_factory=list)
    sizes: list[int] = msgspec.field(default_factory=list)
    devices: list[int] = msgspec.field(default_factory=list)
    born: list[int] = msgspec.field(default_factory=list)
    died: list[int | None] = msgspec.field(default_factory=list)
    modules: list[str] = msgspec.field(default_factory=list)
    categories: list[str] = msgspec.field(default_factory=list)
    ops: list[str] = msgspec.field(default_factory=list)
    phase_of: list[int] = msgspec.field(default_factory=list)

    def of(self, device: int) -> list[Event]:
        """The events of a device; a device that appears late begins in the phase that is running."""
        events = self.events.get(device)
        if events is None:
            events = self.events[device] = []
            if self.phases:
                events.append((MARK, len(self.phases) - 1, 0, STREAM))
        return events

    def enter(self, phase: str) -> None:
        """From here on everything happens in that phase. A phase that returns is a new entry of `phases`."""
        self.phases.append(str(phase))
        for events in self.events.values():
            events.append((MARK, len(self.phases) - 1, 0, STREAM))

    def allocate(self, size_bytes: int, device: int, module: str, category: str, op: str, stream: int = STREAM) -> int:
        """A block is born; its number."""
        events, block = self.of(device), len(self.sizes)
        self.sizes.append(size_bytes)
        self.devices.append(device)
        self.born.append(len(events))
        self.died.append(None)
        self.modules.append(module)
        self.categories.append(category)
        self.ops.append(op)
        self.phase_of.append(len(self.phases) - 1)
        events.append((ALLOC, block, size_bytes, stream))
        return block

    def free(self, block: int) -> None:
        """A block dies."""
        events = self.events[self.devices[block]]
        self.died[block] = len(events)
        events.append((FREE, block, 0, STREAM))

    def empty_cache(self) -> None:
        """The program gave cached memory back, on every device."""
        for events in self.events.values():
            events.append((EMPTY_CACHE, 0, 0, STREAM))
