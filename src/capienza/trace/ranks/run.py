"""Several ranks of one program, traced one after another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from capienza.errors import InputError, Message, template
from capienza.trace import ranks
from capienza.trace.guesses import Guess
from capienza.trace.ranks import unseen
from capienza.trace.ranks.world import World
from capienza.trace.run import Traced, trace
from capienza.trace.tracker import Tracker

State = TypeVar("State")
ON_RANK = template(
    "trace.on-rank",
    "on rank {rank}: {error}",
    "run the program once for real on as many processes, with a small size: if it stops there too, mend it; "
    "if it does not, this cannot be traced",
)
ANSWERS = {
    "recv": "from any rank means from the rank before",
    "Reducer._rebuild_buckets": "buckets keep their first order",
    "PipelineStage._recv_meta": "gradients come in the shapes of the outputs",
}
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
        trackers: list[Tracker] = []

        def around(tracker: Tracker, world: World = world, noted: Any = noted, trackers: Any = trackers) -> Any:
            trackers.append(tracker)
            return ranks.entered(world, tracker, mail, noted)

        try:
            traced = trace(build, step, around=around, **options)
        except InputError as error:
            raise InputError(ON_RANK(rank=world.rank, error=error.message)) from error
        unknown: tuple[Message, ...] = (unseen.COMMUNICATION(world_size=world.size),)
        if trackers[0].place.is_deferring:
            unknown += (unseen.DEFERRED(),)
        guesses = traced.guesses + tuple(
            Guess(op, "", ANSWERS.get(op, OWN_OBJECT), count) for op, count in noted.items()
        )
        found.append(
            msgspec.structs.replace(traced, rank=world.rank, unknown=traced.unknown + unknown, guesses=guesses)
        )
    return tuple(found)
