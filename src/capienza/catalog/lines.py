"""The lines of a file of any size, each bounded, with every failure to read it named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from capienza.errors import InputError, Place, template
from capienza.units import KIB, format_size
from capienza.yamlmarks.source import open_file

LINE_TOO_LONG = template(
    "catalog.line-too-long",
    "a line of more than {limit}",
    "Write one offer for each line, or check that it is the file you meant.",
)

TOO_MANY_LINES = template(
    "catalog.too-many-lines",
    "more than {limit} lines are not read",
    "Split the file, or check that it is the right one.",
)

MAX_LINE = 64 * KIB
MAX_LINES = 5_000_000
LINE_LIMIT = format_size(MAX_LINE, "KiB", 0)
_BOM = b"\xef\xbb\xbf"


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Each line with its number from 1 and its end, without the file's byte-order mark.

    Raises `InputError` at a line longer than `MAX_LINE` bytes, and after `MAX_LINES` lines.
    """
    with open_file(path) as file:
        number = 0
        while line := file.readline(MAX_LINE + 1):
            number += 1
            if len(line) > MAX_LINE:
                raise InputError(LINE_TOO_LONG(limit=LINE_LIMIT), Place(str(path), number))
            if number > MAX_LINES:
                raise InputError(TOO_MANY_LINES(limit=MAX_LINES), Place(str(path), number))
            yield number, line.removeprefix(_BOM) if number == 1 else line
