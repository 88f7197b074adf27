"""Numbers and sizes on the command line: read as in a card, so refused with the same sentences and suggestions."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, NoReturn, TypeVar

import click

from capienza.errors import Message, Place, UsageError

if TYPE_CHECKING:
    from capienza.card.problems import Value

T = TypeVar("T")


class WholeNumber(click.ParamType):  # type: ignore[type-arg]
    """A whole number within bounds."""

    name = "count"

    def __init__(self, minimum: int, maximum: int) -> None:
        self.minimum = minimum
        self.maximum = maximum

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:  # noqa: ARG002
        """Read the text of the option. Raises `UsageError`."""
        if isinstance(value, int):
            return value
        return whole_number(param.opts[0] if param else "", str(value), self.minimum, self.maximum)


def whole_number(option: str, text: str, minimum: int, maximum: int) -> int:
    """A whole number, such as 7e9. Raises `UsageError`."""
    if text.isascii() and text.isdigit() and len(text) <= 20 and minimum <= int(text) <= maximum:
        return int(text)  # plain digits need none of the imports below
    from capienza.card.kinds import read_whole

    return _read(option, lambda: read_whole(_number(text), minimum, maximum))


def size_bytes(option: str, text: str) -> int:
    """A size with its unit, such as 6 GiB. Raises `UsageError`."""
    from capienza.card.quantities import read_size

    return _read(option, lambda: read_size(text))


def refuse(option: str, message: Message) -> NoReturn:
    """Raise what is wrong with the value of an option."""
    raise UsageError(message, Place(option))


def _read(option: str, read: Callable[[], T]) -> T:
    from capienza.card.problems import Refused

    try:
        return read()
    except Refused as refused:
        refuse(option, refused.message)


def _number(text: str) -> Value:
    """The number that a text is in our own digits, or the text itself."""
    try:
        value = Decimal(text) if len(text) <= 40 and text.isascii() and "_" not in text else Decimal("NaN")
    except InvalidOperation:
        return text
    # A long exponent would be written out by whoever turns it into a whole number.
    return value if value.is_finite() and abs(value.adjusted()) <= 40 else text
