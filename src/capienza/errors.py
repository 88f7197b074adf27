"""Everything that can be said to a person: templates, messages, and the error tree.

    CapienzaError                 anything this library raises on purpose
    +-- UsageError                the call's own words are off (exit 2)
    +-- InputError                a document cannot be used as it stands (exit 3)
    |   +-- InputErrors           all the problems of one document, together
    +-- UnreachableError          a model or file is not there, not allowed, or we are offline (exit 4)
    +-- MissingPartError          an optional part is not installed (exit 5)
    +-- VerificationError         a record does not verify (exit 20)

A `Template` is a code with its English text and a hint that says what to do; it is declared once, beside
the code that raises it. A `Message` is a template with parameters filled in: data first, prose last. `str()`
gives English; `i18n` looks the same template up in another language. A parameter whose name ends in
`_bytes` is printed as a size; a parameter may itself be a message.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, TypeAlias

import msgspec

from capienza.units import Money, format_money, format_size, telling_unit

Parameter: TypeAlias = (
    "str | int | float | bool | datetime.datetime | Money | Message | tuple[str, ...] | list[str] | None"
)


class Template(msgspec.Struct, frozen=True):
    """A code, its English text with `{names}`, and what to do about it (may be empty)."""

    code: str
    text: str
    hint: str = ""

    def __call__(self, **parameters: Parameter) -> Message:
        """Fill in the parameters."""
        return Message(self.code, self.text, self.hint, parameters)


TEMPLATES: dict[str, Template] = {}


def template(code: str, text: str, hint: str = "") -> Template:
    """Declare a template. Raises `ValueError` when the code is already taken."""
    if code in TEMPLATES:
        message = f"the code {code} is declared twice"
        raise ValueError(message)
    made = TEMPLATES[code] = Template(code, text, hint)
    return made


PHRASES: set[str] = set()
"""Texts that are translated as parameters; any other text there is a name, and stays as it is."""


def phrase(text: str) -> str:
    """Mark a part of a sentence that is passed as a parameter; it is translated where it is shown."""
    PHRASES.add(text)
    return text


NOTHING = phrase("nothing")
"""How a parameter is shown that is not there."""


class Message(msgspec.Struct, frozen=True):
    """A filled-in template. Equal codes and parameters are equal messages."""

    code: str
    template: str
    hint: str
    parameters: dict[str, Parameter]

    def __str__(self) -> str:
        return fill(self.template, self.parameters)

    def __hash__(self) -> int:
        return hash((self.code, *(value for value in self.parameters.values() if isinstance(value, str | int))))


def show_parameter(name: str, value: Parameter) -> str:
    """One parameter in English."""
    if name.endswith("_bytes") and isinstance(value, int):
        return format_size(value, telling_unit(value))
    if isinstance(value, Money):
        return format_money(value)
    if isinstance(value, tuple | list):
        return ", ".join(value)
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ", "minutes")
    return NOTHING if value is None else str(value)


def fill(
    text: str,
    parameters: Mapping[str, Parameter],
    show: Callable[[str, Parameter], str] = show_parameter,
) -> str:
    """A template's text with its parameters shown by `show`."""
    return text.format(**{name: show(name, value) for name, value in parameters.items()})


SUGGESTION = template("suggestion", "meant was probably {suggestion}", "Did you mean {suggestion}?")


EITHER = template(
    "suggestion-either", "meant was probably {suggestion} or {other}", "Did you mean {suggestion} or {other}?"
)


def with_suggestion(message: Message, suggestion: str | tuple[str, str] | None) -> Message:
    """The message with what was probably meant as its hint, where that is known: one thing, or either of two."""
    if not suggestion:
        return message
    one, other = (suggestion, None) if isinstance(suggestion, str) else suggestion
    words: dict[str, Parameter] = {"suggestion": one} if other is None else {"suggestion": one, "other": other}
    hint = SUGGESTION.hint if other is None else EITHER.hint
    return msgspec.structs.replace(message, hint=hint, parameters={**message.parameters, **words})


class Place(msgspec.Struct, frozen=True):
    """Where in a document: file, line and column counted from 1, key path. What is not known is None."""

    file: str | None = None
    line: int | None = None
    column: int | None = None
    key: str | None = None

    def __str__(self) -> str:
        spot = ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        return ": ".join(part for part in (spot, shortened(self.key or "")) if part)


NOWHERE = Place()


def shortened(text: str, most: int = 120) -> str:
    """A text cut in the middle: names in hostile files have thousands of characters."""
    return text if len(text) <= most else f"{text[: most // 2]}...{text[-most // 3 :]}"


class CapienzaError(Exception):
    """Base of every error raised on purpose; `exit_code` is what the command line returns."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: Message, place: Place = NOWHERE) -> None:
        super().__init__(message, place)
        self.message = message
        self.place = place

    def __str__(self) -> str:
        spot = str(self.place)
        return f"{spot}: {self.message}" if spot else str(self.message)

    def as_dict(self) -> list[dict[str, Any]]:
        """The error in its one JSON shape: code, message, where, hint, parameters."""
        return [
            {
                "code": self.message.code,
                "message": str(self.message),
                "where": str(self.place),
                "hint": fill(self.message.hint, self.message.parameters),
                "parameters": self.message.parameters,
            }
        ]


class UsageError(CapienzaError):
    """The call's own words are off: an unknown option value, two options that exclude each other."""

    exit_code = 2


class InputError(CapienzaError):
    """A document cannot be used as it stands: what was found, what is accepted, where."""

    exit_code = 3


class InputErrors(InputError):  # noqa: N818 - several errors in one
    """All the problems of one document, in the order of their place."""

    def __init__(self, problems: Iterable[InputError]) -> None:
        self.problems = tuple(problems)
        first = self.problems[0]
        super().__init__(first.message, first.place)

    def __reduce__(self) -> tuple[type[InputErrors], tuple[tuple[InputError, ...]]]:
        """Another process gets all the problems, not the first."""
        return type(self), (self.problems,)

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)

    def as_dict(self) -> list[dict[str, Any]]:
        """One row for each problem."""
        return [row for problem in self.problems for row in problem.as_dict()]


class UnreachableError(CapienzaError):
    """A model, file or service is missing, forbidden, moved, or we are offline."""

    exit_code = 4


class MissingPartError(CapienzaError):
    """An optional part is needed and is not installed."""

    exit_code = 5


class VerificationError(CapienzaError):
    """A record's content does not match its digest, or refers to something that is not there."""

    exit_code = 20
