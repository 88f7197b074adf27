"""A document as plain text, for a pipe, a log or a program that reads text. Control characters are shown, not sent."""

from __future__ import annotations

from capienza.report.blocks import (
    Block,
    Cell,
    CostChart,
    Document,
    Heading,
    Items,
    MarginsChart,
    Paragraph,
    PeaksChart,
    SignatureLines,
    Table,
    flat,
)


def plain_text(document: Document) -> str:
    """The whole document, one blank line between blocks; nothing is cut or wrapped. A chart's figures are in tables."""
    return "\n\n".join(filter(None, map(_block, document))) + "\n"


def visible(text: str) -> str:
    """Text with every control character made visible, so that no input drives the terminal or forges a line."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shown(cell: Cell) -> str:
    """A cell as text without control characters."""
    return visible(flat(cell))


def _block(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"{visible(text)}\n{('=' if level == 1 else '-') * len(text)}"
        case Paragraph(text):
            return shown(text)
        case Items(items):
            return "\n".join(f"- {shown(item)}" for item in items)
        case SignatureLines(labels):
            return "\n".join(f"{visible(label)}: {'_' * 40}" for label in labels)
        case Table():
            return _table(block)
        case PeaksChart() | CostChart() | MarginsChart():
            return ""


def _table(table: Table) -> str:
    cells = [tuple(shown(cell) for cell in row) for row in (table.columns, *table.rows)]
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
