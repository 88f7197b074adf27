"""The process group of a traced rank: PyTorch's `fake` one, which answers every collective at once and alone.

It is there before the program is built. A program that makes the group itself, of whatever backend, is given it; a
program that asks which backend it has is told the one that it asked for.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch.distributed as dist

from capienza.errors import UsageError, template
from capienza.trace.ranks.world import World

GROUP_THERE = template(
    "trace.group-there",
    "this process has a process group already",
    "call torch.distributed.destroy_process_group() before tracing ranks",
)
OTHER_WORLD = template(
    "trace.other-world",
    "the program makes a process group of rank {rank} of {size}, and rank {asked_rank} of {asked_size} is traced",
    "let the program take both from the environment, or trace with the same numbers",
)


class Group:
    """What the program did with its process group."""

    def __init__(self, world: World, device_type: str) -> None:
        self.world = world
        self.backend = "nccl" if device_type == "cuda" else "gloo"
        self.is_given = False
        """Has the program made the group itself?"""

    def make(self) -> None:
        """Make the group."""
        from torch.testing._internal.distributed.fake_pg import FakeStore

        real_init(backend="fake", store=FakeStore(), rank=self.world.rank, world_size=self.world.size)

    def asked(self, backend: str | None = None, *told: Any, **named: Any) -> None:
        """`init_process_group` in the program."""
        arguments = dict(zip(("init_method", "timeout", "world_size", "rank"), told, strict=False)) | named
        size, rank = arguments.get("world_size", -1), arguments.get("rank", -1)
        if size not in (-1, None, self.world.size) or rank not in (-1, None, self.world.rank):
            raise UsageError(OTHER_WORLD(rank=rank, size=size, asked_rank=self.world.rank, asked_size=self.world.size))
        if self.is_given and dist.is_initialized():
            real_init(backend, *told, **named)  # it says in PyTorch's words that there is one
        if not dist.is_initialized():
            self.make()
        self.is_given = True
        if backend is not None and ":" not in str(backend):
            self.backend = str(backend).lower()

    def told_backend(self, group: Any = None) -> str:
        """`get_backend` in the program."""
        real_backend(group)
        return dist.Backend(self.backend)

    def part(self, *told: Any, **named: Any) -> Any:
        """`new_group` in the program, whatever backend it asks for."""
        named.pop("backend", None)
        return real_part(*told[:BEFORE_BACKEND], *(None for _ in told[BEFORE_BACKEND:][:1]), *told[3:], **named)


BEFORE_BACKEND = 2
"""Arguments of `new_group` that come before the backend: ranks and time limit."""
real_init, real_part, real_backend = dist.init_process_group, dist.new_group, dist.get_backend


def replacements(group: Group) -> dict[Any, Any]:
    """The functions that are answered by this group."""
    return {
        real_init: group.asked,
        real_part: group.part,
        real_backend: group.told_backend,
        dist.is_nccl_available: lambda: True,
        dist.monitored_barrier: lambda *_args, **_kwargs: None,
    }


@contextlib.contextmanager
def made(group: Group) -> Iterator[None]:
    """Inside, there is the group; after it, no group. Raises `UsageError` where there is one."""
    if dist.is_initialized():
        raise UsageError(GROUP_THERE())
    group.make()
    try:
        yield
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
