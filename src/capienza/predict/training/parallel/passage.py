"""A training step of one GPU in parts: what a data-parallel library's hooks stand between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from capienza.allocator.events import ALLOC, FREE, Event
from capienza.predict.training import tape
from capienza.predict.training.parallel.program import ACTIVATIONS, LOGITS, WHOLE_GRADIENTS, WORKING

PURPOSES = {
    tape.ACTIVATIONS: ACTIVATIONS,
    tape.LOGITS: LOGITS,
    tape.GRADIENTS: WHOLE_GRADIENTS,
    tape.WORKING: WORKING,
}
Place = int | Literal["entry", "exit"]
"""A layer's number; what comes before the layers in forward; what comes after them (last norm, head, loss)."""


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """A part of forward or backward: its events, which blocks are gradients of weights that stay, purposes."""

    phase: Literal["forward", "backward"]
    place: Place
    events: tuple[Event, ...]
    gradients: tuple[int, ...] = ()
    purposes: Mapping[int, str] = {}


def passages_of(events: Sequence[tape.Event]) -> list[Passage]:
    """A tape's events, cut where its segments begin; parts between the last layer and the loss are the exit.

    Gradients of weights are those that are never given back: a checkpointed layer's input gets one too, and loses it.
    """
    given = {block for code, block, _, _ in events if code == tape.FREED}
    became = {block: PURPOSES[kind] for code, block, _, kind in events if code in (tape.ALLOCATED, tape.RENAMED)}
    made: list[Passage] = []
    place: Place = "exit"
    phase: Literal["forward", "backward"] = "forward"
    blocks: list[Event] = []
    gradients: list[int] = []

    def passage() -> Passage:
        purposes = {block: became[block] for code, block, _, _ in blocks if code == ALLOC}
        return Passage(phase=phase, place=place, events=tuple(blocks), gradients=tuple(gradients), purposes=purposes)

    for code, block, size, _ in events:
        if code == tape.SEGMENT:
            following: Literal["forward", "backward"] = "backward" if block[0] == "backward" else "forward"
            known: Place = block[1] if isinstance(block[1], int) or block[1] == "entry" else "exit"
            if block == ("backward", "graph"):
                known = "entry"
            if (following, known) == (phase, place):
                continue
            if blocks:
                made.append(passage())
            phase, place, blocks, gradients = following, known, [], []
        elif code == tape.RENAMED:
            gradients += [block] * (block not in given)
        else:
            blocks.append((ALLOC if code == tape.ALLOCATED else FREE, block, size, 0))
    return [*made, passage()]


def numbered(passages: Sequence[Passage], microbatch: int) -> list[Passage]:
    """The same parts with blocks of their own, for another microbatch of the same program."""
    used = 1 + max((event[1] for passage in passages for event in passage.events), default=0)
    shift = used * microbatch
    if not shift:
        return list(passages)
    return [
        msgspec.structs.replace(
            passage,
            events=tuple((code, block + shift, size, stream) for code, block, size, stream in passage.events),
            gradients=tuple(block + shift for block in passage.gradients),
            purposes={block + shift: purpose for block, purpose in passage.purposes.items()},
        )
        for passage in passages
    ]


def left_over(passages: Sequence[Passage]) -> tuple[int, ...]:
    """Blocks that are still there when all parts are done, besides gradients: the batch.

    Raises `ValueError` for a block that is given back without being there, or a gradient that is given back.
    """
    alive: dict[int, None] = {}
    kept = {block for passage in passages for block in passage.gradients}
    for passage in passages:
        for code, block, _, _ in passage.events:
            if code == ALLOC:
                alive[block] = None
            elif code == FREE and block in alive and block not in kept:
                del alive[block]
            else:
                message = f"{passage.phase} {passage.place}: block {block}, code {code}"
                raise ValueError(message)
    return tuple(block for block in alive if block not in kept)
