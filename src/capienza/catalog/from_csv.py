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
from capienza.catalog.offer import Offer
from capienza.catalog.records import column_at, records
from capienza.catalog.session import Session
from capienza.catalog.walk import columns_of, unknown_key
from capienza.errors import Place, template
from capienza.yamlmarks import Node

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

_LIST_COLUMN = "candidates"


def read_csv(path: Path, session: Session) -> Iterator[Offer]:
    """One offer for each record after the header."""
    columns: _Columns | None = None
    for line, cells, text in records(path, session):
        if columns is None:
            columns = _Columns(cells, session, text)
        elif (offer := columns.offer(cells, line, text)) is not None:
            yield offer


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
