"""A program written down as what it takes from PyTorch's allocator and gives back, and what each block is for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from capienza.allocator.events import ALLOC, FREE, MARK, Event

MAIN_STREAM, GATHER_STREAM, REDUCE_STREAM = 0, 1, 2
"""Blocks of a stream are only used again by the same stream."""
WEIGHTS, ADAPTERS, GRADIENTS, STATES, TRANSIENT = (
    "weights", "adapters", "gradients", "optimizer_states", "optimizer_transient",
)  # fmt: skip
GATHERED, WHOLE_GRADIENTS, BUFFERS = "unsharded_weights", "unsharded_gradients", "communication_buffers"
ACTIVATIONS, LOGITS, WORKING, WORKSPACES = "activations", "logits_and_loss", "pass_temporaries", "workspaces"
"""What a block is for, by the name of its entry in the ledger."""


class Program:
    """Events in order. Its own blocks have negative numbers, so that they mix with blocks numbered by others.

    `phases` are the names of its marks, `purposes` what each block is for, `places` the part of the model that runs
    from an event on.
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.phases: list[str] = []
        self.purposes: dict[int, str] = {}
        self.places: list[tuple[int, object]] = []
        self._blocks = 0

    def enter(self, phase: str) -> None:
        """From here on it is this phase."""
        self.phases.append(phase)
        self.events.append((MARK, len(self.phases) - 1, 0, 0))

    def at(self, place: object) -> None:
        """From here on this part of the model runs."""
        self.places.append((len(self.events), place))

    def take(self, size_bytes: int, stream: int = MAIN_STREAM, purpose: str = WORKING) -> int:
        """A block of so many bytes; its number."""
        self._blocks -= 1
        self.events.append((ALLOC, self._blocks, size_bytes, stream))
        self.purposes[self._blocks] = purpose
        return self._blocks

    def give(self, *blocks: int) -> None:
        """Give blocks back."""
        self.events.extend((FREE, block, 0, 0) for block in blocks)

    def passing(self, *sizes_bytes: int, purpose: str = WORKING) -> None:
        """Take blocks and give them back at once."""
        self.give(*[self.take(size, purpose=purpose) for size in sizes_bytes])

    def extend(self, events: Iterable[Event], purposes: Mapping[int, str] | None = None) -> None:
        """What another program does here; its blocks are numbered from 0."""
        self.events.extend(events)
        if purposes:
            self.purposes.update(purposes)
