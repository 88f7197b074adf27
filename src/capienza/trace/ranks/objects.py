"""Python objects that ranks exchange.

What a rank sends is kept for the ranks that are traced after it. What comes from a rank that was not traced before is
not there: a collective then gives this rank's own object for every rank, which is noted; a `recv_object_list` cannot go
on.
"""

from __future__ import annotations

import copy
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import torch.distributed as dist

from capienza.errors import UsageError, template
from capienza.trace.ranks.world import World

NOT_SENT = template(
    "trace.not-sent",
    "rank {rank} waits for an object of rank {source}, which has sent none so far",
    "trace the ranks in the order in which they send, as in ranks=(0, 1); "
    "or give PipelineStage its input_args and output_args",
)


class Mail:
    """What the ranks that were traced so far have sent."""

    def __init__(self) -> None:
        self.letters: dict[tuple[int, int], deque[Any]] = {}
        self.calls: dict[tuple[str, tuple[int, ...], int], Any] = {}


def replacements(world: World, mail: Mail, note: Callable[[str], None]) -> dict[Any, Any]:
    """The functions of torch.distributed that exchange objects."""
    counts: Counter[tuple[str, tuple[int, ...]]] = Counter()

    def members(group: Any) -> tuple[int, ...]:
        return tuple(dist.get_process_group_ranks(group or dist.group.WORLD))

    def call(kind: str, group: Any) -> tuple[str, tuple[int, ...], int]:
        counts[kind, members(group)] += 1
        return kind, members(group), counts[kind, members(group)]

    def source_of(group: Any, src: int | None, group_src: int | None) -> int:
        return members(group)[group_src] if group_src is not None else src or 0

    def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
        note("all_gather_object")
        object_list[:] = [_copy(obj) for _ in object_list]

    def gather_object(
        obj: Any,
        object_gather_list: list[Any] | None = None,
        dst: int | None = None,
        group: Any = None,
        group_dst: int | None = None,
    ) -> None:
        if world.rank == source_of(group, dst, group_dst) and object_gather_list is not None:
            note("gather_object")
            object_gather_list[:] = [_copy(obj) for _ in object_gather_list]

    def broadcast_object_list(
        object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None,
        group_src: int | None = None,
    ) -> None:  # fmt: skip
        key = call("broadcast", group)
        if world.rank == source_of(group, src, group_src):
            mail.calls[key] = _copy(object_list)
        elif key in mail.calls:
            object_list[:] = _copy(mail.calls[key])
        else:
            note("broadcast_object_list")

    def scatter_object_list(
        scatter_object_output_list: list[Any], scatter_object_input_list: list[Any] | None = None,
        src: int | None = None, group: Any = None, group_src: int | None = None,
    ) -> None:  # fmt: skip
        key, place = call("scatter", group), members(group).index(world.rank)
        source = source_of(group, src, group_src)
        if world.rank == source and scatter_object_input_list is not None:
            mail.calls[key] = _copy(scatter_object_input_list)
        if key not in mail.calls:
            raise UsageError(NOT_SENT(rank=world.rank, source=source))
        scatter_object_output_list[0] = _copy(mail.calls[key][place])

    def send_object_list(
        object_list: list[Any], dst: int | None = None, group: Any = None, device: Any = None,
        group_dst: int | None = None, use_batch: bool = False,
    ) -> None:  # fmt: skip
        to = world.rank, source_of(group, dst, group_dst)
        mail.letters.setdefault(to, deque()).append(_copy(object_list))

    def recv_object_list(
        object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None,
        group_src: int | None = None, use_batch: bool = False,
    ) -> int:  # fmt: skip
        source = source_of(group, src, group_src)
        letters = mail.letters.get((source, world.rank))
        if not letters:
            raise UsageError(NOT_SENT(rank=world.rank, source=source))
        object_list[:] = letters.popleft()
        return source

    def recv(tensor: Any, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None) -> int:
        if src is None and group_src is None:
            note("recv")
            src = members(group)[members(group).index(world.rank) - 1]
        received(tensor, src=src, group=group, tag=tag, group_src=group_src)
        return source_of(group, src, group_src)

    received = dist.recv
    made = (
        all_gather_object, gather_object, broadcast_object_list, scatter_object_list, send_object_list,
        recv_object_list, recv,
    )  # fmt: skip
    return {getattr(dist, function.__name__): function for function in made}


def _copy(value: Any) -> Any:
    """A copy, as pickling would make; a thing that cannot be copied is handed on itself."""
    try:
        return copy.deepcopy(value)
    except Exception:
        return value
