"""A document as GitHub-flavoured Markdown. Cell text is made inert: no cell can open a tag or a link."""

from __future__ import annotations

import re

from capienza.report.blocks import Block, Document, Heading, Items, Paragraph, Table
from capienza.report.plain import visible

_ESCAPES = str.maketrans({character: f"\\{character}" for character in "\\`*_[]<>|#~&$"})
_ADDRESS = re.compile(r"(?i)(?<=:)(?=//)|(?<=\bwww)(?=\.)")
"""Where an escape keeps a reader from making a link of a bare address."""
_LIST_MARK = re.compile(r"^(\s*(?=[-+](?:[\s-]|$))|\s*[0-9]{1,9}(?=[.)](?:\s|$)))")


def markdown(document: Document) -> str:
    """The whole document, one blank line between blocks."""
    return "\n\n".join(_block(block) for block in document) + "\n"


def _block(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"{'#' * level} {_inert(text)}"
        case Paragraph(text):
            return _inert(text)
        case Items(items):
            return "\n".join(f"- {_inert(item)}" for item in items)
        case Table():
            return _table(block)


def _table(table: Table) -> str:
    rule = ("---:" if index in table.numeric else "---" for index in range(len(table.columns)))
    lines = [_row(table.columns), "| " + " | ".join(rule) + " |", *(_row(row) for row in table.rows)]
    title = f"**{_inert(table.title)}**\n\n" if table.title else ""
    return title + "\n".join(lines)


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(_inert(cell) for cell in cells) + " |"


def _inert(text: str) -> str:
    """Text that is only text: it opens no tag, link, list, rule or entity. A tab or a new line is shown as written."""
    text = _ADDRESS.sub("\\\\", visible(text).translate(_ESCAPES))
    return _LIST_MARK.sub(r"\1\\", text)
