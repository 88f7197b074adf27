"""What a report is made of: headings, paragraphs and tables, in the reader's language already."""

from __future__ import annotations

import msgspec


class Heading(msgspec.Struct, frozen=True, tag=True):
    """A title; level 1 is the document's own."""

    text: str
    level: int = 2


class Paragraph(msgspec.Struct, frozen=True, tag=True):
    """One paragraph of prose."""

    text: str


class Items(msgspec.Struct, frozen=True, tag=True):
    """A list, one sentence an item."""

    items: tuple[str, ...]


class Table(msgspec.Struct, frozen=True, tag=True):
    """A table; `numeric` are the columns that are set flush right, `whole` those whose cells are never broken."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[int, ...] = ()
    whole: tuple[int, ...] = ()
    title: str = ""


Block = Heading | Paragraph | Items | Table
Document = tuple[Block, ...]
