"""One rank of a run on many GPUs, traced alone in this process.

    predict_peak(build, step, device="H100", world_size=4, ranks=(0, 3))

The program finds the environment of a launcher and a process group that answers every collective at once. What the
communication library holds for itself is not seen, and is an unknown entry of each rank.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import torch

from capienza.errors import MissingPartError, template
from capienza.trace.ranks.libraries import forgotten
from capienza.trace.ranks.world import World, environment
from capienza.trace.rebind import rebound
from capienza.trace.swap import swapped
from capienza.trace.tracker import Tracker

if TYPE_CHECKING:
    from capienza.trace.ranks.objects import Mail

NO_DISTRIBUTED = template(
    "trace.no-distributed",
    "this PyTorch was built without torch.distributed",
    "install a release of PyTorch that has it",
)


def mailbox() -> Mail:
    """An empty box for what ranks send each other. Raises `MissingPartError` without torch.distributed."""
    if not torch.distributed.is_available():
        raise MissingPartError(NO_DISTRIBUTED())
    # Before a trace begins, as it takes the handlers that there are.
    import capienza.trace.ranks.collectives
    import capienza.trace.ranks.sync_norm  # noqa: F401
    from capienza.trace.ranks.objects import Mail

    return Mail()


@contextlib.contextmanager
def entered(world: World, tracker: Tracker, mail: Mail, noted: Counter[str]) -> Iterator[None]:
    """Inside, this process is that rank. What is assumed is counted in `noted`."""
    from capienza.trace.ranks import (
        accelerator,
        collectives,
        data_parallel,
        group,
        objects,
        pipeline,
        purposes,
        sharded,
    )

    note: Callable[[str], None] = lambda what: noted.update((what,))  # noqa: E731
    told = group.Group(world, tracker.device_type)
    changes = (
        data_parallel.changes(tracker.scene, note)
        + sharded.changes()
        + purposes.changes(tracker.scene)
        + pipeline.changes(note)
    )
    if tracker.device_type == "cuda":
        changes += accelerator.changes(tracker.place, world.on_node)
    with contextlib.ExitStack() as stack:
        stack.enter_context(environment(world))
        stack.enter_context(forgotten())
        stack.enter_context(group.made(told))
        for owner, attribute, value in changes:
            stack.enter_context(swapped(owner, attribute, value))
        for functions in (
            group.replacements(told),
            objects.replacements(world, mail, note),
            collectives.replacements(),
            purposes.replacements(tracker.scene),
            sharded.replacements(),
        ):
            stack.enter_context(rebound(functions))
        yield
