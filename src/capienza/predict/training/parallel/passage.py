"""A training step of one GPU in parts: what a data-parallel library's hooks stand between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from capienza.allocator.events import ALLOC, FREE, Event

Place = int | Literal["entry", "exit"]
"""A layer's number; what comes before the layers in forward; what comes after them (last norm, head, loss)."""


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """A part of forward or backward: its events, and which of its blocks are gradients of weights that stay."""

    phase: Literal["forward", "backward"]
    place: Place
    events: tuple[Event, ...]
    gradients: tuple[int, ...] = ()


def numbered(passages: Sequence[Passage], microbatch: int) -> list[Passage]:
    """The same parts with blocks of their own, for another microbatch of the same program."""
    used = 1 + max((event[1] for passage in passages for event in passage.events), default=0)
    shift = used * microbatch
    return [
        msgspec.structs.replace(
            passage,
            events=tuple((code, block + shift, size, stream) for code, block, size, stream in passage.events),
            gradients=tuple(block + shift for block in passage.gradients),
        )
        for passage in passages
    ]


def check(passages: Sequence[Passage]) -> None:
    """Raises `ValueError` for a block that is given back without being there, or a gradient that is given back."""
    alive: set[int] = set()
    kept = {block for passage in passages for block in passage.gradients}
    for passage in passages:
        for code, block, _, _ in passage.events:
            if code == ALLOC:
                alive.add(block)
            elif code == FREE and block in alive and block not in kept:
                alive.discard(block)
            else:
                message = f"{passage.phase} {passage.place}: block {block}, code {code}"
                raise ValueError(message)
