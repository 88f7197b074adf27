"""A `Say` turns English texts, messages, sizes and numbers into one language."""

from __future__ import annotations

import datetime
import re
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING

from capienza.errors import NOTHING, PHRASES, Message, Parameter, fill, show_parameter
from capienza.i18n.catalogue import DOMAIN, LOCALES
from capienza.i18n.foreign import PARAMETERS, translated
from capienza.i18n.mark import mark as mark
from capienza.units import ENGLISH_MARKS, Money, NumberMarks, format_money, format_number, format_size, telling_unit

if TYPE_CHECKING:
    from gettext import NullTranslations

_MARKS = {"en": ENGLISH_MARKS, "it": NumberMarks(decimal=",", group=".")}

_MONTHS = {
    "en": ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"],
    "it": ["gen", "feb", "mar", "apr", "mag", "giu", "lug", "ago", "set", "ott", "nov", "dic"],
}

_MOMENTS = {"date", "deadline", "earliest", "end", "expires", "latest", "latest_start", "planned", "start", "until"}
"""Parameters that may be a moment in text, as records and offers keep it."""
_DECIMALS = {
    "available", "certain", "elapsed", "factor", "hours", "per_parameter", "per_token", "percent", "planned", "term",
    "usable", "work",
}  # fmt: skip
"""Parameters that may be hours, a percentage or a rate in text; a release such as 12.8 is never one of them."""
_DECIMAL = re.compile(r"[0-9]+\.[0-9]+", re.ASCII)
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{5,15}(?:Z|[+-][0-9]{2}:[0-9]{2})", re.ASCII)


class Say:
    """Speaks one language. Calling it translates an English text and fills in its parameters.

    Moments are shown on the clock of `zone`; None: each on its own.
    """

    __slots__ = ("_catalogue", "language", "marks", "zone")

    def __init__(self, language: str, zone: datetime.tzinfo | None = None) -> None:
        self.language = language
        self.zone = zone
        self.marks = _MARKS[language]
        self._catalogue = _catalogue(language)

    def __call__(self, text: str, /, **parameters: Parameter) -> str:
        """An English text in this language, its `{names}` filled in."""
        translated = self._catalogue.gettext(text) if self._catalogue and text else text
        return fill(translated, parameters, self._show) if parameters else translated

    def in_zone(self, zone: datetime.tzinfo | None) -> Say:
        """The same, with another clock."""
        return Say(self.language, zone)

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

    def decimals(self, text: str) -> str:
        """The numbers of a formula with this language's decimal mark."""
        return _DECIMAL.sub(lambda number: number[0].replace(".", self.marks.decimal), text)

    def money(self, money: Money) -> str:
        """An amount with its currency."""
        return format_money(money, self.marks)

    def moment(self, moment: datetime.datetime) -> str:
        """A moment with its offset from UTC: "1 Dec 2026, 09:00 (UTC+01:00)"."""
        moment = self._local(moment)
        offset = moment.isoformat(timespec="minutes")[len("2026-12-01T09:00") :] if moment.utcoffset() else ""
        return f"{self.date(moment)}, {moment:%H:%M} (UTC{offset})"

    def date(self, moment: datetime.datetime) -> str:
        """The day of a moment: "1 Dec 2026"."""
        moment = self._local(moment)
        return f"{moment.day} {_MONTHS[self.language][moment.month - 1]} {moment.year}"

    def _local(self, moment: datetime.datetime) -> datetime.datetime:
        try:
            return moment if self.zone is None else moment.astimezone(self.zone)
        except OverflowError:  # the first and the last day that there are
            return moment

    def _show(self, name: str, value: Parameter) -> str:
        if name.endswith("_bytes") and isinstance(value, int):
            return self.size(value, unit=telling_unit(value))
        if isinstance(value, Money):
            return self.money(value)
        if isinstance(value, datetime.datetime):
            return self.moment(value)
        if isinstance(value, Message):
            return self.message(value)
        if isinstance(value, bool):
            return self("yes") if value else self("no")
        if name in _DECIMALS and isinstance(value, str) and _DECIMAL.fullmatch(value):
            return self.decimals(value)
        if name in _MOMENTS and isinstance(value, str) and _MOMENT.fullmatch(value):
            return self.moment(datetime.datetime.fromisoformat(value))
        if isinstance(value, tuple | list):
            return ", ".join(self(one) if one in PHRASES else one for one in value)
        if value is None:
            return self(NOTHING)
        if not isinstance(value, str):
            return show_parameter(name, value)
        if value in PHRASES:
            return self(value)
        return translated(value, self) if name in PARAMETERS and self._catalogue else value


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
