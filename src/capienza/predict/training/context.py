"""CUDA's context on a GPU, as it was measured: what PyTorch's counters never show. Unknown for other cards."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path

import msgspec

from capienza.units import MIB

DATA = Path(__file__).parents[1] / "data" / "cuda_context.json"


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """One card's readings in MiB: after the first operation, and while kernels of a training are loaded.

    `keys` are beginnings of names in the catalogue of devices.
    """

    keys: tuple[str, ...]
    start_mib: int | None
    working_mib: int | None
    release: str
    source: str

    @property
    def readings(self) -> tuple[int, ...]:
        """What was read, in bytes."""
        return tuple(MIB * mib for mib in (self.start_mib, self.working_mib) if mib is not None)


def context_on(candidates: Iterable[str]) -> Context | None:
    """The reading that all of these cards have in common; None where one has another, or none."""
    found = {_of(key) for key in candidates}
    return found.pop() if len(found) == 1 else None


def _of(key: str) -> Context | None:
    return next((one for one in _readings() if any(_begins(key, start) for start in one.keys)), None)


def _begins(key: str, start: str) -> bool:
    return key.startswith(start) if start.endswith("_") else key == start


@functools.cache
def _readings() -> tuple[Context, ...]:
    return msgspec.json.decode(DATA.read_bytes(), type=tuple[Context, ...])
