"""Tensors that add up to an entry of the ledger."""

from __future__ import annotations

import msgspec


class HeldRow(msgspec.Struct, frozen=True, kw_only=True):
    """Tensors of one operation: `part` is that of the program (`layer`, or a name), shapes as [rows, columns]."""

    part: str
    operation: str
    shape: tuple[int, ...]
    item_bytes: int
    each_bytes: int
    num_each: int
    layers: int

    @property
    def total_bytes(self) -> int:
        """All of the row."""
        return self.each_bytes * self.num_each * self.layers
