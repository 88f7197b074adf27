"""A `Say` turns English texts, messages, sizes and numbers into one language."""

from __future__ import annotations

from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING

from capienza.errors import PHRASES, Message, Parameter, fill, show_parameter
from capienza.i18n.catalogue import DOMAIN, LOCALES
from capienza.units import ENGLISH_MARKS, Money, NumberMarks, format_money, format_number, format_size, telling_unit

if TYPE_CHECKING:
    from gettext import NullTranslations

_MARKS = {"en": ENGLISH_MARKS, "it": NumberMarks(decimal=",", group=".")}


def mark(text: str) -> str:
    """Mark an English text for translation where it is declared; it is looked up where it is shown."""
    return text


class Say:
    """Speaks one language. Calling it translates an English text and fills in its parameters."""

    __slots__ = ("_catalogue", "language", "marks")

    def __init__(self, language: str) -> None:
        self.language = language
        self.marks = _MARKS[language]
        self._catalogue = _catalogue(language)

    def __call__(self, text: str, /, **parameters: Parameter) -> str:
        """An English text in this language, its `{names}` filled in."""
        translated = self._catalogue.gettext(text) if self._catalogue and text else text
        return fill(translated, parameters, self._show) if parameters else translated

    def message(self, message: Message) -> str:
        """The sentence of a message."""
        return fill(self(message.template), message.parameters, self._show)

    def hint(self, message: Message) -> str:
        """What to do about a message; empty when it has no hint."""
        return fill(self(message.hint), message.parameters, self._show)

    def size(self, amount_bytes: int, decimals: int = 2, unit: str = "GiB") -> str:
        """A size in this language's marks."""
        return format_size(amount_bytes, unit, decimals, self.marks)

    def number(self, value: int | Decimal, decimals: int = 0) -> str:
        """A number in this language's marks."""
        return format_number(value, decimals, self.marks)

    def money(self, money: Money) -> str:
        """An amount with its currency."""
        return format_money(money, self.marks)

    def _show(self, name: str, value: Parameter) -> str:
        if name.endswith("_bytes") and isinstance(value, int):
            return self.size(value, unit=telling_unit(value))
        if isinstance(value, Money):
            return self.money(value)
        if isinstance(value, Message):
            return self.message(value)
        if isinstance(value, bool):
            return self("yes") if value else self("no")
        return self(value) if isinstance(value, str) and value in PHRASES else show_parameter(name, value)


@cache
def speaker(language: str) -> Say:
    """The `Say` of a language (one of `LANGUAGES`)."""
    return Say(language)


def _catalogue(language: str) -> NullTranslations | None:
    if language == "en":
        return None
    from gettext import GNUTranslations

    with open(f"{LOCALES}/{language}/LC_MESSAGES/{DOMAIN}.mo", "rb") as file:
        return GNUTranslations(file)
