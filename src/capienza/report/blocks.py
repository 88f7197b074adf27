"""What a report is made of: headings, paragraphs, tables, charts, in the reader's language already.

A text is a string, or parts of which some point elsewhere: into the document (`Link`, `Mark`) or out of it
(`Address`). An anchor is the name that they point to; a mark's is its label in small letters.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec


class Link(msgspec.Struct, frozen=True, tag=True):
    """Words that lead to an anchor of the same document."""

    text: str
    anchor: str


class Mark(msgspec.Struct, frozen=True, tag=True):
    """A reference such as E1 behind a figure: where it comes from."""

    label: str

    @property
    def anchor(self) -> str:
        """The anchor it leads to."""
        return self.label.lower()


class Address(msgspec.Struct, frozen=True, tag=True):
    """Something that may be a web address; it becomes a link only where it is one of http or https."""

    text: str


class State(msgspec.Struct, frozen=True, tag=True):
    """A verdict: `name` decides its colour and sign, `text` is shown, `word` is what a short `text` stands for."""

    name: str
    text: str
    word: str = ""


Part = str | Link | Mark | Address | State
Text = str | tuple[Part, ...]


class Lines(msgspec.Struct, frozen=True, tag=True):
    """Several texts in one cell."""

    lines: tuple[Text, ...]


Cell = Text | Lines


class Heading(msgspec.Struct, frozen=True, tag=True):
    """A title; level 1 is the document's own."""

    text: str
    level: int = 2
    anchor: str = ""


class Paragraph(msgspec.Struct, frozen=True, tag=True):
    """One paragraph of prose."""

    text: Text


class Items(msgspec.Struct, frozen=True, tag=True):
    """A list, one sentence an item."""

    items: tuple[Text, ...]


class Table(msgspec.Struct, frozen=True, tag=True):
    """A table; `numeric` are the columns that are set flush right, `whole` those whose cells are never broken.

    `anchors` name the rows, where anything points to them; "" names none. The first cell of a row is its heading.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    numeric: tuple[int, ...] = ()
    whole: tuple[int, ...] = ()
    title: str = ""
    anchors: tuple[str, ...] = ()


class Bar(msgspec.Struct, frozen=True):
    """One phase of `PeaksChart`, in bytes; `observed_bytes` is the largest reading, None where there is none."""

    label: str
    floor_bytes: int
    expected_bytes: int
    ceiling_bytes: int
    observed_bytes: int | None = None


class PeaksChart(msgspec.Struct, frozen=True, tag=True):
    """Need per phase against what can be used. `words` are the legend: expected, range, observed, usable."""

    title: str
    description: str
    bars: tuple[Bar, ...]
    usable_bytes: int | None
    words: tuple[str, str, str, str]
    axis: str


class Point(msgspec.Struct, frozen=True):
    """One offer of `CostChart`; a figure that is not known is None, and then drawn nowhere."""

    label: str
    state: Literal["admissible", "to_confirm"]
    amount: str
    margin_bytes: int


class CostChart(msgspec.Struct, frozen=True, tag=True):
    """Cost beside useful margin. `words` are what the two states are called."""

    title: str
    description: str
    points: tuple[Point, ...]
    axes: tuple[str, str]
    words: tuple[str, str]


class Span(msgspec.Struct, frozen=True):
    """One row of `MarginPanel`: a figure and its interval; what is not known is None, and then drawn nowhere.

    `state` decides colour and shape, `word` says it, `notes` stand behind it, a line each.
    """

    label: str
    state: str
    word: str
    notes: tuple[str, ...]
    value: float | None
    lower: float | None
    upper: float | None
    is_far_off: bool = False
    """May be cut at the edge, where it would leave the others no room."""


class MarginPanel(msgspec.Struct, frozen=True):
    """One threshold and what is held against it; nothing below it (or above: `is_worse_above`) is acceptable."""

    title: str
    axis: str
    spans: tuple[Span, ...]
    threshold: float
    is_worse_above: bool = False
    has_zero: bool = False


class MarginsChart(msgspec.Struct, frozen=True, tag=True):
    """Intervals against their margins. `words` are the legend: interval, margin, not acceptable, no difference.

    `legend` says the same in a line, for where the picture stands alone.
    """

    title: str
    description: str
    panels: tuple[MarginPanel, ...]
    words: tuple[str, str, str, str]
    legend: str


class SignatureLines(msgspec.Struct, frozen=True, tag=True):
    """Empty lines to be filled in by hand, each with what belongs there."""

    labels: tuple[str, ...]


Block = Heading | Paragraph | Items | Table | PeaksChart | CostChart | MarginsChart | SignatureLines
Document = tuple[Block, ...]


def flat(cell: Cell) -> str:
    """A cell as plain text: references in brackets, lines one after the other."""
    match cell:
        case str():
            return cell
        case Lines(lines):
            return "; ".join(flat(line) for line in lines)
        case parts:
            return "".join(_flat_part(part) for part in parts)


def cited(text: Text, marks: Iterable[Mark]) -> Text:
    """A text with its references behind it."""
    behind = tuple(part for mark in marks for part in (" ", mark))
    if not behind:
        return text
    return (*((text,) if isinstance(text, str) else text), *behind)


def _flat_part(part: Part) -> str:
    match part:
        case str():
            return part
        case Mark(label):
            return f"[{label}]"
        case Link(text) | Address(text) | State(text=text):
            return text
