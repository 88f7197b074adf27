"""The events of a whole model from those of its distinct layers.

Legend: a part is a segment of the tape (a layer's forward pass, the loss, ...) with its events. A layer that comes
again repeats the part of its like, with blocks of its own. What such a part gives back that it did not take is
    its layer's  taken in the layer's forward pass, given back in its backward pass
    rows         the one block that the layer before hands over in the forward pass
    gradient     the one block that the layer after, or the loss, hands over in the backward pass
and at the end of autocast all layers' copies of weights go. Whatever is none of these is not understood here: then the
whole model has to be walked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from capienza.allocator.events import ALLOC, FREE, MARK
from capienza.allocator.events import Event as AllocatorEvent
from capienza.predict.training.composed import EXITS
from capienza.predict.training.tape import ALLOCATED, FREED, SEGMENT, Event

ROWS, GRADIENT, OWN = 0, 1, 2
"""Places in a repeated part's table of blocks: what it is handed, then its layer's, then those of no layer."""
PHASES = ("forward", "backward")
"""Of the parts of a walk that is understood."""
Name: TypeAlias = tuple[str, Any]


class NotAlikeError(Exception):
    """A block goes from part to part in a way that is not understood."""


class Part(msgspec.Struct, eq=False):
    """One segment of the tape. `events` are (code, block, size); `blocks` are those it takes."""

    name: Name
    events: list[tuple[int, int, int]] = []
    blocks: list[int] = []

    @property
    def is_layer(self) -> bool:
        """Does it belong to a layer, of which there may be more?"""
        return isinstance(self.name[1], int)


class Walk(msgspec.Struct):
    """Parts in order, and for each block the part that takes it and the one that gives it back."""

    parts: list[Part]
    owners: list[Part]
    ends: list[Part | None]


class Repeated(msgspec.Struct):
    """A layer's part as often as it comes: its events are (code, place in the table of blocks, size).

    `handed` are the blocks behind `ROWS` and `GRADIENT` in the walk, `hands` is the place of the one it hands over
    among the `count` that it takes, `outside` are blocks of no layer.
    """

    events: list[tuple[int, int, int]]
    count: int
    handed: dict[int, int]
    hands: int | None
    outside: list[int]


def expanded(events: Sequence[Event], like: Sequence[int], entry: Name) -> tuple[list[AllocatorEvent], list[str]]:
    """The allocator's events of all layers, and the names of their phases.

    `like` is the walked layer of each layer, `entry` the part that a microbatch begins with. Raises `NotAlikeError`.
    """
    walk, whole = _walk(events), _Whole(like)
    starts = [place for place, part in enumerate(walk.parts) if part.name == entry]
    if starts[:1] != [0] or any(part.name[0] not in PHASES for part in walk.parts):
        raise NotAlikeError
    for start, end in zip(starts, [*starts[1:], len(walk.parts)], strict=True):
        whole.add(walk, walk.parts[start:end])
    return whole.events, whole.phases


def _walk(events: Sequence[Event]) -> Walk:
    walk = Walk([], [], [])
    for code, block, size, _ in events:
        if code == SEGMENT:
            part = Part(block)
            walk.parts.append(part)
        elif code == ALLOCATED:
            part.events.append((ALLOC, block, size))
            part.blocks.append(block)
            walk.owners.append(part)
            walk.ends.append(None)
        elif code == FREED:
            part.events.append((FREE, block, 0))
            walk.ends[block] = part
    return walk


class _Whole:
    """What is made so far; `numbers` are the new ones of blocks of no layer."""

    def __init__(self, like: Sequence[int]) -> None:
        self.like, self.last = like, len(like) - 1
        self.events: list[AllocatorEvent] = []
        self.phases: list[str] = []
        self.numbers: dict[int, int] = {}
        self.free = 0

    def add(self, walk: Walk, parts: Sequence[Part]) -> None:
        """One microbatch."""
        layers = {part.name: part for part in parts if part.is_layer}
        if len(layers) < sum(part.is_layer for part in parts):
            raise NotAlikeError
        repeated = {name: _repeated(walk, part, layers) for name, part in layers.items()}
        self._check(repeated)
        bases: dict[Name, int] = {}
        done = set()
        for part in parts:
            phase = part.name[0]
            if self.phases[-1:] != [phase]:
                self.phases.append(phase)
                self.events.append((MARK, len(self.phases) - 1, 0, 0))
            if not part.is_layer:
                self._add_part(walk, part, layers, repeated, bases)
            elif phase not in done:
                done.add(phase)
                self._add_layers(phase, repeated, bases)

    def _check(self, repeated: Mapping[Name, Repeated]) -> None:
        """Whatever is handed over is taken by the next, whichever layer that is."""
        walked = max(self.like)
        forward = [repeated["forward", one] for one in self.like]
        backward = [repeated.get(("backward", one)) for one in self.like]
        if None in backward:
            raise NotAlikeError
        for place, (there, back) in enumerate(zip(forward, backward, strict=True)):
            assert back is not None
            if place and (ROWS in there.handed) + (ROWS in back.handed) != (forward[place - 1].hands is not None):
                raise NotAlikeError
            after = backward[place + 1] if place < self.last else None
            if after is not None and (GRADIENT in back.handed) != (after.hands is not None):
                raise NotAlikeError
        ends = repeated["forward", walked], repeated["backward", walked]
        if (forward[-1].hands is None) != (ends[0].hands is None) or (GRADIENT in ends[1].handed) != (
            GRADIENT in repeated["backward", self.like[-1]].handed
        ):
            raise NotAlikeError

    def _add_layers(self, phase: str, repeated: Mapping[Name, Repeated], bases: dict[Name, int]) -> None:
        like, last, numbers = self.like, self.last, self.numbers
        for place in range(last + 1) if phase == "forward" else range(last, -1, -1):
            one = repeated[phase, like[place]]
            table = [0, 0]
            if ROWS in one.handed:
                table[ROWS] = _handed("forward", place - 1, like, repeated, bases)
            if GRADIENT in one.handed:
                given = repeated["backward", max(like)].handed[GRADIENT]
                table[GRADIENT] = (
                    numbers[given] if place == last else _handed("backward", place + 1, like, repeated, bases)
                )
            if phase == "backward":
                first = bases["forward", place]
                table += range(first, first + repeated["forward", like[place]].count)
            bases[phase, place] = self.free
            table += range(self.free, self.free + one.count)
            table += [numbers[block] for block in one.outside]
            self.free += one.count
            self.events += [(code, table[at], size, 0) for code, at, size in one.events]

    def _add_part(
        self,
        walk: Walk,
        part: Part,
        layers: Mapping[Name, Part],
        repeated: Mapping[Name, Repeated],
        bases: Mapping[Name, int],
    ) -> None:
        like, numbers = self.like, self.numbers
        for code, block, size in part.events:
            owner = walk.owners[block]
            phase, walked = owner.name
            if code == ALLOC:
                numbers[block], self.free = self.free, self.free + 1
            if not owner.is_layer:
                self.events.append((code, numbers[block], size, 0))
            elif owner is not layers.get(owner.name):
                raise NotAlikeError
            elif part.name in EXITS:
                own = block - owner.blocks[0]
                places = [place for place, one in enumerate(like) if one == walked]
                self.events += [(FREE, bases[phase, place] + own, 0, 0) for place in places]
            else:
                place = self.last if phase == "forward" else 0
                self.events.append((FREE, _handed(phase, place, like, repeated, bases), 0, 0))


def _handed(
    phase: str, place: int, like: Sequence[int], repeated: Mapping[Name, Repeated], bases: Mapping[Name, int]
) -> int:
    hands = repeated[phase, like[place]].hands
    if hands is None:
        raise NotAlikeError
    return bases[phase, place] + hands


def _repeated(walk: Walk, part: Part, layers: Mapping[Name, Part]) -> Repeated:
    """A layer's part with places for blocks. Raises `NotAlikeError`."""
    phase, layer = part.name
    own = [*(layers["forward", layer].blocks if phase == "backward" else []), *part.blocks]
    places = {block: OWN + place for place, block in enumerate(own)}
    handed: dict[int, int] = {}
    outside: list[int] = []
    for code, block, _ in part.events:
        if code == FREE and block not in places:
            role = _role(walk.owners[block], part.name, layers)
            if role == OWN:
                places[block] = OWN + len(own) + len(outside)
                outside.append(block)
            elif handed.setdefault(role, block) != block:
                raise NotAlikeError
            else:
                places[block] = role
    return Repeated(
        events=[(code, places[block], size) for code, block, size in part.events],
        count=len(part.blocks),
        handed=handed,
        hands=_hands(walk, part, layers),
        outside=outside,
    )


def _role(owner: Part, name: Name, layers: Mapping[Name, Part]) -> int:
    """What a block is to a layer's part that gives it back without having taken it; `OWN`: it is of no layer."""
    phase, layer = name
    if not owner.is_layer:
        if layer == 0:
            return OWN
        if phase == "backward" and ("backward", layer + 1) not in layers:
            return GRADIENT
    elif owner is layers.get(("forward", layer - 1)):
        return ROWS
    elif phase == "backward" and owner is layers.get(("backward", layer + 1)):
        return GRADIENT
    raise NotAlikeError


def _hands(walk: Walk, part: Part, layers: Mapping[Name, Part]) -> int | None:
    """Which of its blocks a layer's part leaves to the next one."""
    phase, layer = part.name
    found = None
    for place, block in enumerate(part.blocks):
        end = walk.ends[block]
        if end is part or (end is None and phase == "backward"):
            continue
        if end is not None and phase == "forward" and (end is layers.get(("backward", layer)) or end.name in EXITS):
            continue
        if end is None or found is not None:
            raise NotAlikeError
        found = place
    return found
