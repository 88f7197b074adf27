"""CUDA's context on a GPU: what PyTorch's counters never show.

Legend: s read after the first operation; w read while a training's kernels are loaded, one after another (lazily).
    added = w - s, the most of all cards where both were read
Of a card with readings the largest of them is expected; where w was not read, s + added is the ceiling. A card without
one takes the largest of those of its compute capability, else of all; that is an estimate, and says so. The context
grows with the code that is loaded for the capability, and with what the driver keeps for each multiprocessor.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from capienza.units import MIB

if TYPE_CHECKING:
    from capienza.catalog.capability import GpuTraits

DATA = Path(__file__).parents[1] / "data" / "cuda_context.json"


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """One card's readings in MiB: after the first operation, and while kernels of a training are loaded.

    `keys` are beginnings of names in the catalogue of devices, `capability` is theirs. `others` are the readings that
    stand in for a card without one, empty for a reading of the card itself.
    """

    keys: tuple[str, ...]
    start_mib: int | None
    working_mib: int | None
    release: str
    source: str
    capability: tuple[int, int] | None = None
    others: tuple[Context, ...] = ()

    @property
    def readings(self) -> tuple[int, ...]:
        """What was read, in bytes."""
        if self.others:
            return tuple(sorted({reading for one in self.others for reading in one.readings}))
        return tuple(MIB * mib for mib in (self.start_mib, self.working_mib) if mib is not None)

    @property
    def ceiling_bytes(self) -> int:
        """The largest reading, with what a training's kernels add where they were not read."""
        if self.others:
            return max(one.ceiling_bytes for one in self.others)
        return max(self.readings) + (added_bytes() if self.working_mib is None else 0)


def context_on(candidates: Iterable[str], traits: Sequence[GpuTraits] = ()) -> Context | None:
    """What was read on these cards, else on cards like them; None where no NVIDIA card is named.

    `traits` are those of the cards; without them nothing stands in for a reading.
    """
    keys = tuple(candidates)
    found = [_of(key) for key in keys]
    known = tuple(dict.fromkeys(one for one in found if one is not None))
    if len(known) == 1 and all(found):
        return known[0]
    if not traits or any(one.vendor != "NVIDIA" for one in traits):
        return None
    alike = [one for trait in traits for one in _alike(trait)]
    return Context(
        keys=keys,
        start_mib=None,
        working_mib=None,
        release="",
        source="; ".join(dict.fromkeys(one.source for one in alike)),
        others=tuple(dict.fromkeys(alike)),
    )


def _alike(trait: GpuTraits) -> tuple[Context, ...]:
    """The reading of that card, else those of its compute capability, else all with kernels loaded lazily."""
    own = _of(trait.name)
    if own is not None:
        return (own,)
    lazily = tuple(one for one in _readings() if one.start_mib is not None)
    return tuple(one for one in lazily if one.capability == trait.capability) or lazily


@functools.cache
def added_bytes() -> int:
    """The most that a training's kernels were seen to add to the context."""
    added: list[int] = [
        one.working_mib - one.start_mib
        for one in _readings()
        if one.working_mib is not None and one.start_mib is not None
    ]
    most: int = MIB * max(added)
    return most


def _of(key: str) -> Context | None:
    return next((one for one in _readings() if any(_begins(key, start) for start in one.keys)), None)


def _begins(key: str, start: str) -> bool:
    return key.startswith(start) if start.endswith("_") else key == start


@functools.cache
def _readings() -> tuple[Context, ...]:
    return msgspec.json.decode(DATA.read_bytes(), type=tuple[Context, ...])
