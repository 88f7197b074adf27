"""One field of a form that people write."""

from __future__ import annotations

import msgspec

from capienza.card.kinds import Kind


class Field(msgspec.Struct, frozen=True):
    """One field. `attribute` is its name in the struct when that differs from the key; `none` says it may be `none`."""

    path: str
    kind: Kind
    description: str
    example: str
    required: bool = False
    none: bool = False
    attribute: str = ""

    @property
    def key(self) -> str:
        """The last key of the path."""
        return self.path.rpartition(".")[2]

    @property
    def parent(self) -> str:
        """The path of the mapping that holds it."""
        return self.path.rpartition(".")[0]

    @property
    def type_text(self) -> str:
        """What may be written, for the reference."""
        return f"{self.kind.text}; or none" if self.none else self.kind.text
