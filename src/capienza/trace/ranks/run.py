"""Several ranks of one program, traced one after another."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from capienza.errors import Message
from capienza.trace import ranks
from capienza.trace.guesses import Guess
from capienza.trace.ranks import unseen
from capienza.trace.ranks.world import World
from capienza.trace.run import Traced, trace
from capienza.trace.streams import Place

State = TypeVar("State")
FIRST_ORDER = "buckets keep their first order"
OWN_OBJECT = "the object of this rank stands for that of every rank"


def traces(
    build: Callable[[], State], step: Callable[[State], object], worlds: Sequence[World], **options: Any
) -> tuple[Traced, ...]:
    """Build the program and run its steps once for each rank, with the options of `trace`.

    Raises what `trace` raises, `UsageError` where the process has a process group already, and `MissingPartError`
    without torch.distributed.
    """
    mail = ranks.mailbox()
    found = []
    for world in worlds:
        noted: Counter[str] = Counter()
        places: list[Place] = []

        @contextlib.contextmanager
        def around(
            place: Place, device_type: str, world: World = world, noted: Any = noted, places: Any = places
        ) -> Iterator[None]:
            places.append(place)
            with ranks.entered(world, place, device_type, mail, noted):
                yield

        traced = trace(build, step, around=around, **options)
        unknown: tuple[Message, ...] = (unseen.COMMUNICATION(world_size=world.size),)
        if places[0].is_deferring:
            unknown += (unseen.DEFERRED(),)
        guesses = traced.guesses + tuple(Guess(op, "", _answer(op), count) for op, count in noted.items())
        found.append(
            msgspec.structs.replace(traced, rank=world.rank, unknown=traced.unknown + unknown, guesses=guesses)
        )
    return tuple(found)


def _answer(op: str) -> str:
    return FIRST_ORDER if op == "Reducer._rebuild_buckets" else OWN_OBJECT
