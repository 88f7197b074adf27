"""One row of a foreign file: its values by column, read with care, and what was noted on the way.

A value that an offer cannot do without ends the row with `LeaveOut`; the reason stands in the report, with its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from capienza.catalog.notes import Notes
from capienza.errors import Message, Place, template
from capienza.units import MAX_MONEY

NOT_A_NUMBER = template("import.not-a-number", "{column} is {found}, which is not a number")
NEGATIVE = template("import.negative", "{column} is {found}, and cannot be below zero")
TOO_LARGE = template("import.too-large", "{column} is {found}, more than {maximum}")
NOT_WHOLE = template("import.not-whole", "{column} is {found}, and must be a whole number")
MISSING = template("import.missing", "{column} is empty, and nothing else says it")
NOT_A_FLAG = template("import.not-a-flag", "{column} is {found}, neither true nor false: it is read as not stated")
NOT_READ = template("import.value-not-read", "{column} is {found}, which is not understood: it is read as not stated")

MAX_GPUS = 100_000
_NUMBER = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?", re.ASCII)
_LONGEST = 40


class LeaveOut(Exception):  # noqa: N818 - not a failure: the row is left out and said
    """The row makes no offer."""

    def __init__(self, message: Message, column: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.column = column


class Row:
    """Values by column. `place` gives where a column stands; `once` says something of the whole file one time."""

    def __init__(
        self,
        values: Mapping[str, Any],
        number_in_file: int,
        place: Callable[[str | None], Place],
        once: Callable[[Message, str | None], None],
    ) -> None:
        self.values = values
        self.number_in_file = number_in_file
        self.place = place
        self.once = once
        self.notes = Notes()

    def note(self, message: Message, column: str) -> None:
        """Something to know about this row."""
        self.notes.finding(message, column)

    def text(self, column: str) -> str | None:
        """A text, or a number as text; None when it is not there or empty."""
        value = self.values.get(column)
        if isinstance(value, str):
            return value.strip() or None
        if isinstance(value, int | Decimal) and not isinstance(value, bool):
            return f"{value:f}" if isinstance(value, Decimal) and abs(value.adjusted()) < _LONGEST else str(value)
        return None

    def needed(self, column: str) -> str:
        """A text without which there is no offer."""
        text = self.text(column)
        if text is None:
            raise LeaveOut(MISSING(column=column), column)
        return text

    def number(self, column: str) -> Decimal | None:
        """A number that is not negative; None when it is not stated."""
        value = self.values.get(column)
        if value is None or value == "":
            return None
        text = self.text(column)
        if text is None and isinstance(value, str):
            return None
        found = _number(text or "")
        if found is None:
            raise LeaveOut(NOT_A_NUMBER(column=column, found=_shown(value)), column)
        if found < 0:
            raise LeaveOut(NEGATIVE(column=column, found=_shown(value)), column)
        return found

    def amount(self, column: str) -> str | None:
        """An amount of money as decimal text; None when it is not stated, "0" when the file says zero."""
        found = self.number(column)
        if found is not None and found > MAX_MONEY:
            raise LeaveOut(TOO_LARGE(column=column, found=_shown(found), maximum=str(MAX_MONEY)), column)
        return None if found is None else f"{found:f}"

    def count(self, column: str) -> int | None:
        """A whole number of things; None when it is not stated."""
        found = self.number(column)
        if found is None:
            return None
        if found != int(found):
            raise LeaveOut(NOT_WHOLE(column=column, found=_shown(found)), column)
        if found > MAX_GPUS:
            raise LeaveOut(TOO_LARGE(column=column, found=_shown(found), maximum=str(MAX_GPUS)), column)
        return int(found)

    def aside(self, column: str, most: int = 10**9) -> float | None:
        """A number that an offer can do without: what is not one, or is zero, is said and read as not stated."""
        try:
            found = self.number(column)
        except LeaveOut:
            found = None
            self.note(NOT_READ(column=column, found=_shown(self.values.get(column))), column)
        if found is not None and found > most:
            self.note(NOT_READ(column=column, found=_shown(found)), column)
            return None
        if not found:
            return None
        return int(found) if found == int(found) else float(found)

    def flag(self, column: str) -> bool | None:
        """True or false; what is neither is said and read as not stated."""
        value = self.values.get(column)
        if isinstance(value, bool):
            return value
        text = (self.text(column) or "").lower()
        if text in ("true", "false"):
            return text == "true"
        if text:
            self.note(NOT_A_FLAG(column=column, found=_shown(value)), column)
        return None


def _number(text: str) -> Decimal | None:
    if len(text) > _LONGEST or not _NUMBER.fullmatch(text):
        return None
    found = Decimal(text)
    return found if not found or abs(found.adjusted()) < _LONGEST else None


def _shown(value: object) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
