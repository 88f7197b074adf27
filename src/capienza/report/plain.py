"""A document as plain text, for a pipe, a log or a program that reads text. Control characters are shown, not sent."""

from __future__ import annotations

from capienza.report.blocks import Block, Document, Heading, Items, Paragraph, Table


def plain_text(document: Document) -> str:
    """The whole document, one blank line between blocks; nothing is cut or wrapped."""
    return "\n\n".join(_block(block) for block in document) + "\n"


def visible(text: str) -> str:
    """Text with every control character made visible, so that no input drives the terminal or forges a line."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _block(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"{visible(text)}\n{('=' if level == 1 else '-') * len(text)}"
        case Paragraph(text):
            return visible(text)
        case Items(items):
            return "\n".join(f"- {visible(item)}" for item in items)
        case Table():
            return _table(block)


def _table(table: Table) -> str:
    cells = [tuple(visible(cell) for cell in row) for row in (table.columns, *table.rows)]
    widths = [max(len(row[index]) for row in cells) for index in range(len(table.columns))]
    lines = [_line(row, widths, table.numeric) for row in cells]
    lines.insert(1, "  ".join("-" * width for width in widths))
    title = [visible(table.title)] if table.title else []
    return "\n".join([*title, *lines])


def _line(row: tuple[str, ...], widths: list[int], numeric: tuple[int, ...]) -> str:
    cells = (
        cell.rjust(width) if index in numeric else cell.ljust(width)
        for index, (cell, width) in enumerate(zip(row, widths, strict=True))
    )
    return "  ".join(cells).rstrip()
