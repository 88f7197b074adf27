"""What is alive at a moment of a trace, by module and by what it is for."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator

import msgspec

from capienza.allocator.events import MARK
from capienza.ledger.phase import Phase
from capienza.trace import scene
from capienza.trace.recording import Recording

WEIGHTS, GRADIENTS, STATES, BUFFERS, INPUTS = "weights", "gradients", "optimizer_states", "buffers", "inputs"
ACTIVATIONS, RECOMPUTED, TEMPORARIES, TRANSIENT = (
    "activations", "recomputed_activations", "temporaries", "optimizer_transient",
)  # fmt: skip
_NUMBER = re.compile(r"(?<![^.])[0-9]+(?![^.])")
"""A part of a module's name that is a number."""
_NAMES = {
    scene.PARAMETER: WEIGHTS, scene.GRADIENT: GRADIENTS, scene.STATE: STATES, scene.BUFFER: BUFFERS,
    scene.INPUT: INPUTS, scene.RECOMPUTED: RECOMPUTED, scene.BACKWARD: TEMPORARIES, scene.UPDATE: TRANSIENT,
    scene.LOADING: "loading",
}  # fmt: skip


class Holder(msgspec.Struct, frozen=True):
    """Storages of one kind of one module that are alive together, as they were asked for."""

    module: str
    category: str
    size_bytes: int
    count: int
    op: str
    """The operation that made the largest of them."""


def alive(recording: Recording, device: int, event: int) -> Iterator[int]:
    """The blocks of a device that are alive right after an event."""
    for block, born in enumerate(recording.born):
        if born <= event and recording.devices[block] == device:
            died = recording.died[block]
            if died is None or died > event:
                yield block


def categories(recording: Recording, device: int) -> list[str]:
    """What every block is for. What a forward pass left for a backward pass to use is an activation."""
    passes = [
        index
        for index, (code, phase, _, _) in enumerate(recording.events[device])
        if code == MARK and recording.phases[phase] == Phase.BACKWARD
    ]
    return [_category(recording, block, passes) for block in range(len(recording.sizes))]


def holders(recording: Recording, device: int, event: int, named: list[str]) -> tuple[Holder, ...]:
    """Who holds the memory of a device right after an event, the largest first."""
    blocks: dict[tuple[str, str], list[int]] = defaultdict(list)
    for block in alive(recording, device, event):
        blocks[recording.modules[block], named[block]].append(block)
    found = [_holder(recording, *key, together) for key, together in blocks.items()]
    return tuple(sorted(found, key=lambda one: (-one.size_bytes, one.module, one.category)))


def alike(found: Iterable[Holder]) -> tuple[Holder, ...]:
    """Holders of modules that differ only by a number, as the layers of a model do, taken together."""
    together: dict[tuple[str, str], list[Holder]] = defaultdict(list)
    for one in found:
        together[_NUMBER.sub("*", one.module), one.category].append(one)
    joined = [
        Holder(module, category, sum(one.size_bytes for one in of), sum(one.count for one in of), of[0].op)
        for (module, category), of in together.items()
    ]
    return tuple(sorted(joined, key=lambda one: (-one.size_bytes, one.module, one.category)))


def _holder(recording: Recording, module: str, category: str, blocks: list[int]) -> Holder:
    sizes = recording.sizes
    largest = max(blocks, key=sizes.__getitem__)
    return Holder(module, category, sum(sizes[block] for block in blocks), len(blocks), recording.ops[largest])


def _category(recording: Recording, block: int, passes: list[int]) -> str:
    category = recording.categories[block]
    if category not in (scene.FORWARD, scene.INPUT):
        return _NAMES.get(category, category)
    place = bisect_right(passes, recording.born[block])
    died = recording.died[block]
    is_kept = place < len(passes) and (died is None or died > passes[place])
    if category == scene.INPUT and not is_kept:
        return INPUTS if recording.modules[block] == "" and _is_made(recording.ops[block]) else TEMPORARIES
    if category == scene.INPUT:
        return INPUTS if _is_made(recording.ops[block]) else ACTIVATIONS
    return ACTIVATIONS if is_kept else TEMPORARIES


def _is_made(op: str) -> bool:
    """Did it come from nothing, or from the host?"""
    return op.partition(".")[2].partition(".")[0] in (
        "randint",
        "randn",
        "rand",
        "arange",
        "zeros",
        "ones",
        "full",
        "_to_copy",
        "empty",
    )
