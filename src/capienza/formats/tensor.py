"""One stored tensor: what every reader returns and every predictor walks."""

from __future__ import annotations

import math

import msgspec


class Tensor(msgspec.Struct, frozen=True):
    """A tensor as it is stored: `dtype` is a name of `formats.blocks`, `bytes` its exact storage."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int

    @property
    def elements(self) -> int:
        """Number of stored elements (of a packed format: of the packed words)."""
        return math.prod(self.shape)
