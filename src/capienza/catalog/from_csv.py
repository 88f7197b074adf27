"""Offers in CSV: a header of keys, then one offer for each record.

The header has the keys of one of the two forms; a key inside another is written with a point ("document.id",
"price.kind"). An empty cell is not stated. A cell is text, whatever it begins with: nothing is evaluated. Lists (fees)
need YAML or JSON; candidates are separated by "|".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from capienza.catalog.forms import FlatOffer, FullOffer
from capienza.catalog.lines import lines
from capienza.catalog.offer import Offer
from capienza.catalog.session import Session
from capienza.catalog.walk import columns_of, unknown_key
from capienza.errors import Place, template
from capienza.units import KIB, format_size
from capienza.yamlmarks import Node

NOT_UTF8 = template("catalog.csv-not-utf8", "the line is not UTF-8 text", "Save the file as CSV UTF-8.")
NOT_CSV = template(
    "catalog.not-csv",
    "this is not valid CSV: {problem}",
    "Put a cell with a comma or a quote in quotes, and double the quotes in it.",
)
RECORD_TOO_LONG = template(
    "catalog.record-too-long",
    "a record of more than {limit}",
    "A quote that is not closed swallows the lines after it: check the quotes.",
)
WRONG_WIDTH = template(
    "catalog.wrong-width",
    "the record has {found} cells, the header {wanted}",
    "Put a cell with a comma in quotes; an empty cell still needs its comma.",
)
SEPARATOR = template(
    "catalog.wrong-separator",
    "the header has no comma and uses {found}",
    "Save the file with commas: with semicolons, amounts are often written with a comma too.",
)
REPEATED_COLUMN = template("catalog.repeated-column", "the column {found} is there twice", "Keep one of the two.")
NO_LIST_COLUMN = template(
    "catalog.list-in-csv",
    "{found} is a list, which a CSV cell cannot hold",
    "Write these offers in YAML or JSON.",
)

MAX_RECORD = 256 * KIB
_LIST_COLUMN = "candidates"


def read_csv(path: Path, session: Session) -> Iterator[Offer]:
    """One offer for each record after the header."""
    import csv

    source = _Lines(path, session)
    records = csv.reader(source, strict=True)
    columns: _Columns | None = None
    while True:
        source.begin()
        first = source.number + 1
        try:
            cells = next(records, None)
        except csv.Error as error:
            session.stop(NOT_CSV(problem=str(error)), Place(session.file, first))
        if cells is None:
            return
        if not any(cells):
            continue
        if columns is None:
            columns = _Columns(cells, session, source.text)
        elif (offer := columns.offer(cells, first, source.text)) is not None:
            yield offer


class _Lines:
    """Feeds lines to the CSV reader; remembers the record's text, bounded, to find columns in it again."""

    def __init__(self, path: Path, session: Session) -> None:
        self.source = lines(path)
        self.session = session
        self.number = 0
        self.text = ""

    def begin(self) -> None:
        """A new record starts with the next line."""
        self.text = ""

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        self.number, line = next(self.source)
        try:
            text = line.decode()
        except UnicodeDecodeError:
            self.session.stop(NOT_UTF8(), Place(self.session.file, self.number))
        if self.session.hidden(text, self.number):
            self.session.problems.raise_any()
        self.text = self.text + text if self.text else text
        if len(self.text) > MAX_RECORD:
            self.session.stop(
                RECORD_TOO_LONG(limit=format_size(MAX_RECORD, "KiB", 0)), Place(self.session.file, self.number)
            )
        return text


class _Columns:
    """The header: which key each column holds."""

    def __init__(self, header: list[str], session: Session, text: str) -> None:
        self.session = session
        self.names = [name.strip() for name in header]
        self.form: type[FlatOffer] | type[FullOffer] = (
            FullOffer if {"offer_id", "price.kind", "gpu.name_raw"} & set(self.names) else FlatOffer
        )
        known = columns_of(self.form)
        self._check(known, text)
        self.setters: list[tuple[int, str | None, str]] = []
        for index, name in enumerate(self.names):
            outer, point, inner = name.rpartition(".")
            self.setters.append((index, outer if point else None, inner))

    def _check(self, known: dict[str, bool], text: str) -> None:
        """Raise every problem of the header: without it no record can be read."""
        session = self.session
        if len(self.names) == 1 and (other := re.search("[;\t|]", self.names[0])):
            session.stop(SEPARATOR(found="TAB" if other[0] == "\t" else other[0]), Place(session.file, 1, 1))
        seen: set[str] = set()
        for index, name in enumerate(self.names):
            place = Place(session.file, 1, column_at(text, index), name or None)
            if name in seen:
                session.problems.add(REPEATED_COLUMN(found=name[:60]), place)
            elif name not in known:
                session.problems.add(unknown_key(name, known), place)
            elif known[name] and not name.endswith(_LIST_COLUMN):
                session.problems.add(NO_LIST_COLUMN(found=name), place)
            seen.add(name)
        session.problems.raise_any()

    def offer(self, cells: list[str], line: int, text: str) -> Offer | None:
        session = self.session
        place = Place(session.file, line, 1)
        if len(cells) != len(self.names):
            session.problems.add(WRONG_WIDTH(found=len(cells), wanted=len(self.names)), place)
            session.count(place)
            return None

        def tree() -> Node:
            return self.tree(cells, line, text)

        try:
            form = msgspec.convert(self.plain(cells), self.form, strict=False)
        except msgspec.ValidationError as error:
            session.refused(place, tree, error, strict=False)
            return None
        return session.offer(form, place, tree)

    def plain(self, cells: list[str]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for index, outer, name in self.setters:
            cell = cells[index].strip()
            if not cell:
                continue
            value = cell.split("|") if name == _LIST_COLUMN else cell
            if outer is None:
                found[name] = value
            else:
                found.setdefault(outer, {})[name] = value
        return found

    def tree(self, cells: list[str], line: int, text: str) -> Node:
        """The record as a marked tree."""
        root: dict[str, Node] = {}
        for index, outer, name in self.setters:
            cell = cells[index].strip()
            if not cell:
                continue
            column = column_at(text, index)
            value: Any = [Node(part, line, column) for part in cell.split("|")] if name == _LIST_COLUMN else cell
            members: dict[str, Node] = root
            if outer is not None:
                members = root.setdefault(outer, Node({}, line, column)).value  # type: ignore[assignment]
            members[name] = Node(value, line, column)
        return Node(root, line, 1)


def column_at(text: str, index: int) -> int:
    """The column, from 1, where the cell with this index begins; 0 when the record spans lines before it."""
    quoted, cell = False, 0
    for position, character in enumerate(text):
        if cell == index:
            return position + 1
        if character == '"':
            quoted = not quoted
        elif character == "\n":
            return 0
        elif character == "," and not quoted:
            cell += 1
    return 0
