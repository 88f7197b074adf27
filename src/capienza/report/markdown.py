"""A document as GitHub-flavoured Markdown. Cell text is made inert: no cell can open a tag or a link."""

from __future__ import annotations

import re

from capienza.report.blocks import (
    Block,
    Cell,
    CostChart,
    Document,
    Heading,
    Items,
    Lines,
    Link,
    MarginsChart,
    Mark,
    Paragraph,
    Part,
    PeaksChart,
    SignatureLines,
    Table,
)
from capienza.report.plain import visible

_ESCAPES = str.maketrans({character: f"\\{character}" for character in "\\`*_[]<>|#~&$"})
_ADDRESS = re.compile(r"(?i)(?<=:)(?=//)|(?<=\bwww)(?=\.)")
"""Where an escape keeps a reader from making a link of a bare address."""
_LIST_MARK = re.compile(r"^(\s*(?=[-+](?:[\s-]|$))|\s*[0-9]{1,9}(?=[.)](?:\s|$)))")
BLANK = "\\_" * 30


def markdown(document: Document) -> str:
    """The whole document, one blank line between blocks. A chart's figures are in the table beside it."""
    return "\n\n".join(filter(None, map(_block, document))) + "\n"


def _block(block: Block) -> str:
    match block:
        case Heading(text, level, anchor):
            return f"{'#' * level} {_anchor(anchor)}{_inert(text)}"
        case Paragraph(text):
            return _cell(text)
        case Items(items):
            return "\n".join(f"- {_cell(item)}" for item in items)
        case SignatureLines(labels):
            return "\n\n".join(f"{_inert(label)}: {BLANK}" for label in labels)
        case Table():
            return _table(block)
        case PeaksChart() | CostChart() | MarginsChart():
            return ""


def _table(table: Table) -> str:
    rule = ("---:" if index in table.numeric else "---" for index in range(len(table.columns)))
    anchors = (*table.anchors, *[""] * (len(table.rows) - len(table.anchors)))
    rows = (_row(row, anchor) for row, anchor in zip(table.rows, anchors, strict=True))
    lines = [_row(table.columns), "| " + " | ".join(rule) + " |", *rows]
    title = f"**{_inert(table.title)}**\n\n" if table.title else ""
    return title + "\n".join(lines)


def _row(cells: tuple[Cell, ...], anchor: str = "") -> str:
    return f"| {_anchor(anchor)}" + " | ".join(_cell(cell) for cell in cells) + " |"


def _anchor(name: str) -> str:
    return f'<a id="{name}"></a>' if name else ""


def _cell(cell: Cell) -> str:
    match cell:
        case str():
            return _inert(cell)
        case Lines(lines):
            return "<br>".join(_cell(line) for line in lines)
        case parts:
            return "".join(_part(part) for part in parts)


def _part(part: Part) -> str:
    match part:
        case Mark(label):
            return f"[\\[{label}\\]](#{part.anchor})"
        case Link(text, anchor):
            return f"[{_inert(text)}](#{anchor})"
        case str():
            return _inert(part)
        case word:
            return _inert(word.text)


def _inert(text: str) -> str:
    """Text that is only text: it opens no tag, link, list, rule or entity. A tab or a new line is shown as written."""
    text = _ADDRESS.sub("\\\\", visible(text).translate(_ESCAPES))
    return _LIST_MARK.sub(r"\1\\", text)
