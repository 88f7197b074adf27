"""One rank of a run on many GPUs, as a launcher would start it, in this process.

Legend: world size processes of the run; rank the number of one; local rank its number on its node, and the number of
its GPU. A node has at most as many GPUs as the guard for fake tensors.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence

import msgspec

from capienza.errors import UsageError, template
from capienza.trace.streams import DEVICES

MOST_RANKS = 65_536
NO_WORLD = template(
    "trace.no-world",
    "{found} is no number of ranks",
    "a world size is a whole number from 1 to 65536",
)
NO_RANK = template(
    "trace.no-rank",
    "there is no rank {rank} in a world of {world_size}",
    "ranks count from 0 to the world size less 1",
)
RANK_ALONE = template(
    "trace.rank-alone",
    "a rank was given, and no world size",
    "give world_size as well: the number of processes that the run has",
)
RANK_TWICE = template(
    "trace.rank-twice",
    "the ranks to trace were given as `rank` and as `ranks`, or one of them twice",
    "give rank=0 for one of them, ranks=(0, 3) for several",
)


class World(msgspec.Struct, frozen=True):
    """A rank among so many."""

    size: int
    rank: int

    @property
    def local_rank(self) -> int:
        """Its number on its node."""
        return self.rank % DEVICES

    @property
    def on_node(self) -> int:
        """How many ranks its node has."""
        return min(DEVICES, self.size - self.rank + self.local_rank)

    def environment(self) -> dict[str, str]:
        """What torchrun tells a process."""
        node, nodes = self.rank // DEVICES, -(-self.size // DEVICES)
        return {
            "RANK": str(self.rank),
            "WORLD_SIZE": str(self.size),
            "LOCAL_RANK": str(self.local_rank),
            "LOCAL_WORLD_SIZE": str(self.on_node),
            "GROUP_RANK": str(node),
            "GROUP_WORLD_SIZE": str(nodes),
            "ROLE_RANK": str(self.rank),
            "ROLE_WORLD_SIZE": str(self.size),
            "ROLE_NAME": "default",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": "29500",
            "TORCHELASTIC_RUN_ID": "none",
            "TORCHELASTIC_RESTART_COUNT": "0",
            "TORCHELASTIC_MAX_RESTARTS": "0",
        }


def worlds_of(world_size: int | None, rank: int | None, ranks: Sequence[int] | None) -> tuple[World, ...]:
    """The ranks to trace, in the order asked for; none for a program of one process. Raises `UsageError`."""
    if world_size is None:
        if rank is not None or ranks is not None:
            raise UsageError(RANK_ALONE())
        return ()
    if not _is_whole(world_size) or not 1 <= world_size <= MOST_RANKS:
        raise UsageError(NO_WORLD(found=str(world_size)))
    asked = (0 if rank is None else rank,) if ranks is None else tuple(ranks)
    if (rank is not None and ranks is not None) or len(set(asked)) < len(asked):
        raise UsageError(RANK_TWICE())
    for one in asked or ("()",):
        if not _is_whole(one) or not 0 <= int(one) < world_size:
            raise UsageError(NO_RANK(rank=str(one), world_size=world_size))
    return tuple(World(world_size, one) for one in asked)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


@contextlib.contextmanager
def environment(world: World) -> Iterator[None]:
    """Inside, the process's environment is that of the rank."""
    told = world.environment()
    before = {name: os.environ.get(name) for name in told}
    os.environ.update(told)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
