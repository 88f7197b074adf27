"""The figures of docs/explanation/training-accuracy.md, between its two marks: `training_bars.py --page`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from capienza.validate.groups import By, Group, groups
from capienza.validate.scored import Scored

START, END = "<!-- figures: bench/training_bars.py --page -->", "<!-- end of figures -->"
HEAD = "| n | median | p95 | worst | covered | elsewhere | width |\n"


def write(page: Path, bars: Sequence[tuple[str, str, str, str]], rows: Sequence[Scored], age: str) -> None:
    """Put the figures in the page; what stands outside the marks stays. `bars`: name, asked, found, verdict."""
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    made = "".join(_figures(bars, rows, age))
    file, name = tempfile.mkstemp(dir=page.parent)
    with os.fdopen(file, "w", encoding="utf-8") as out:
        out.write(f"{before}{START}\n\n{made}\n{END}{after}")
        out.flush()
        os.fsync(out.fileno())
    Path(name).chmod(0o644)
    Path(name).replace(page)


def _figures(bars: Sequence[tuple[str, str, str, str]], rows: Sequence[Scored], age: str) -> Iterator[str]:
    yield "### The bars\n\n| bar | | asked | today |\n| --- | --- | --- | --- |\n"
    yield from (f"| {name} | {verdict} | {asked} | {found} |\n" for name, asked, found, verdict in bars)
    yield f"\n{age}.\n"
    compared = [row for row in rows if row.error is not None]
    yield from _table("By counter, tier and method", "quantity | method", "method", compared)
    yield from _table("By publisher", "quantity | publisher", "family", compared)


def _table(title: str, columns: str, by: By, rows: Sequence[Scored]) -> Iterator[str]:
    yield f"\n### {title}\n\n| {columns} {HEAD}| --- | --- |{' --- |' * 7}\n"
    yield from (_line(one, one.by[by]) for one in groups(rows, (by,)) if one.n)


def _line(one: Group, key: str) -> str:
    shares = (one.median, one.p95, one.max, one.coverage, one.coverage_elsewhere, one.width)
    cells = " | ".join("" if share is None else f"{100 * share:.2f} %" for share in shares)
    return f"| {one.quantity} | {key} | {one.n} | {cells} |\n"
