"""Data on stdout, in the form that was asked for: rich tables on a terminal, plain text in a pipe, JSON, Markdown."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from capienza.cli.base import language
from capienza.i18n.translator import Say, speaker

if TYPE_CHECKING:
    from rich.console import Console, JustifyMethod

    from capienza.report.blocks import Document


def current_say() -> Say:
    """The language of the running command."""
    return speaker(language(click.get_current_context()))


@contextlib.contextmanager
def talking() -> Iterator[Callable[[int, str, str], None] | None]:
    """A line on the terminal, written over, for what takes more than a second: how far, in which phase, in what."""
    if not sys.stderr.isatty():
        yield None
        return
    began = last = time.monotonic()

    def tell(done: int, phase: str, place: str) -> None:
        nonlocal last
        now = time.monotonic()
        if now - began > 1 and now - last > 0.2:
            last = now
            sys.stderr.write(f"\r\x1b[K{done} {phase} {place}"[:160])
            sys.stderr.flush()

    try:
        yield tell
    finally:
        if last > began:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def show(
    form: str,
    as_json: bool,
    *,
    document: Callable[[Say], Document],
    data: Callable[[], dict[str, Any]],
    sheet: Callable[[Say], Document] | None = None,
) -> None:
    """Show one result. `sheet` is what Markdown shows when it differs from what a terminal shows."""
    if as_json or form == "json":
        from capienza.canon import pretty
        from capienza.cli.streams import json_output

        json_output().write(pretty(data()) + "\n")
    elif form == "md":
        from capienza.report.markdown import markdown

        sys.stdout.write(markdown((sheet or document)(current_say())))
    else:
        show_document(document(current_say()))


def show_document(document: Document) -> None:
    """A document for people; without rich, or in a pipe, the same in plain text."""
    console = _console()
    if console is None:
        from capienza.report.plain import plain_text

        sys.stdout.write(plain_text(document))
    else:
        _show_rich(document, console)


def _console() -> Console | None:
    if not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        return None
    try:
        from rich.console import Console
    except ImportError:
        return None
    return Console(highlight=False)


def _show_rich(document: Document, console: Console) -> None:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    from capienza.report.blocks import Heading, Items, Paragraph, Table
    from capienza.report.plain import shown, visible

    for block in document:
        match block:
            case Heading(text, level):
                console.print(Text(visible(text), style="bold underline" if level == 1 else "bold"))
            case Paragraph(text):
                console.print(Text(shown(text)))
            case Items(items):
                for item in items:
                    console.print(Text(f"• {shown(item)}"))
            case Table() as table:
                grid = RichTable(
                    title=Text(visible(table.title)) if table.title else None,
                    title_justify="left",
                    box=box.SIMPLE_HEAD,
                    padding=(0, 1, 0, 0),
                )
                for index, column in enumerate(table.columns):
                    justify: JustifyMethod = "right" if index in table.numeric else "left"
                    grid.add_column(Text(column), justify=justify, no_wrap=index in table.whole)
                for row in table.rows:
                    grid.add_row(*(Text(shown(cell)) for cell in row))
                console.print(grid)
        console.print()
