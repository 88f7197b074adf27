"""The records of a CSV file of any size, each with its first line and, bounded, the text to find columns in again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from capienza.catalog.lines import lines
from capienza.catalog.session import Session
from capienza.errors import Place, template
from capienza.units import KIB, format_size

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

MAX_RECORD = 256 * KIB


class Record(NamedTuple):
    """One record: its first line, counted from 1, its cells, and its text."""

    line: int
    cells: list[str]
    text: str


def records(path: Path, session: Session, *, refuse_hidden: bool = True) -> Iterator[Record]:
    """The records that are not blank, the header included.

    Stops the session at a line that is not CSV or not UTF-8, and, with `refuse_hidden`, at a control character.
    """
    import csv

    source = _Lines(path, session, refuse_hidden)
    cells_of = csv.reader(source, strict=True)
    while True:
        source.text = ""
        first = source.number + 1
        try:
            cells = next(cells_of, None)
        except csv.Error as error:
            session.stop(NOT_CSV(problem=str(error)), Place(session.file, first))
        if cells is None:
            return
        if any(cells):
            yield Record(first, cells, source.text)


class _Lines:
    """Feeds lines to the CSV reader; remembers the text of the record."""

    def __init__(self, path: Path, session: Session, refuse_hidden: bool) -> None:
        self.source = lines(path)
        self.session = session
        self.refuse_hidden = refuse_hidden
        self.number = 0
        self.text = ""

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        self.number, line = next(self.source)
        try:
            text = line.decode()
        except UnicodeDecodeError:
            self.session.stop(NOT_UTF8(), Place(self.session.file, self.number))
        if self.refuse_hidden and self.session.hidden(text, self.number):
            self.session.problems.raise_any()
        self.text = self.text + text if self.text else text
        if len(self.text) > MAX_RECORD:
            self.session.stop(
                RECORD_TOO_LONG(limit=format_size(MAX_RECORD, "KiB", 0)), Place(self.session.file, self.number)
            )
        return text


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
