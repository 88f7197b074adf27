"""A checked view of a config: every value has its type and bounds, and an error says file and key.

A key that the file leaves out takes the default of transformers' own config class (5.24), because that is
what the model would be built with; each default is written beside the read, in the family. Every number taken
so is remembered in `assumed`, and ends up as a note of the architecture. The core dimensions of a model are
always stated at the top of a config.json: there, a missing one is an error. Only the text part of a
vision-language config is published without the values that equal the defaults of its class.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from capienza.errors import InputError, Message, Place, template

LARGEST = 2**31 - 1
"""No dimension of a model reaches this; a larger number is a damaged file."""
MAX_LAYERS = 10_000
MAX_EXPERTS = 65_536

CORRECT = "Correct {key}, or use the config.json published with the model."
MISSING = template(
    "architecture.missing-key",
    "{key} is missing, and nothing can stand in for it",
    "Use the config.json published with the model, complete.",
)
MISSING_THIS = template(
    "architecture.missing-part",
    "{key} is missing; {accepted} is needed",
    "Use the config.json published with the model, complete.",
)
NOT_AN_INTEGER = template("architecture.not-an-integer", "found {found}; a whole number is accepted", CORRECT)
NOT_A_NUMBER = template("architecture.not-a-number", "found {found}; a number above 0 is accepted", CORRECT)
NOT_A_FLAG = template("architecture.not-a-flag", "found {found}; true or false is accepted", CORRECT)
NOT_A_TEXT = template("architecture.not-a-text", "found {found}; a text in quotes is accepted", CORRECT)
NOT_A_LIST = template("architecture.not-a-list", "found {found}; a list is accepted", CORRECT)
NOT_A_PART = template("architecture.not-a-part", "found {found}; an object in braces is accepted", CORRECT)
WRONG_TYPE = template("architecture.wrong-type", "found {found}; {accepted} is accepted", CORRECT)
OUT_OF_BOUNDS = template(
    "architecture.out-of-bounds",
    "found {found}; a whole number from {minimum} to {maximum} is accepted",
    CORRECT,
)
BROKEN_RULE = template(
    "architecture.broken-rule",
    "found {found}, but the rest of the file needs {rule}",
    CORRECT,
)
CONTRADICTION = template(
    "architecture.contradiction",
    "found {found}, which contradicts the rest of the file; {accepted} is accepted",
    CORRECT,
)
NOT_UNDERSTOOD = template(
    "architecture.not-understood",
    "found {found}; {accepted} is understood. Nothing is guessed: {direction}",
    "Remove {key} if the model does not use it.",
)


def shown(value: object) -> str:
    """A value as an error shows it, cut short."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):  # hundreds of digits would be refused by str()
        return str(value) if abs(value) < 10**20 else f"an integer of {value.bit_length()} bits"
    if isinstance(value, Mapping | list | tuple):
        return f"{'an object' if isinstance(value, Mapping) else 'a list'} of {len(value)}"
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


class Config:
    """Reads one object of a config. `aliases` maps a key to the older name or names that the same class accepts.

    `assumed` and `notes` are shared by all views of one file, for the architecture's notes.
    """

    __slots__ = ("aliases", "assumed", "file", "mapping", "nested", "notes", "prefix")

    def __init__(
        self,
        mapping: Mapping[str, Any],
        file: str = "config.json",
        *,
        prefix: str = "",
        aliases: Mapping[str, str | tuple[str, ...]] | None = None,
        parent: Config | None = None,
    ) -> None:
        self.mapping = mapping
        self.file = file
        self.prefix = prefix
        self.nested = bool(prefix)
        self.aliases = aliases or {}
        self.assumed: dict[str, int] = {} if parent is None else parent.assumed
        self.notes: list[Message] = [] if parent is None else parent.notes

    def with_aliases(self, **aliases: str | tuple[str, ...]) -> Config:
        """The same view, where `new="old"` lets the key `new` be written `old`, or any of a tuple of names."""
        return Config(self.mapping, self.file, prefix=self.prefix, aliases=aliases, parent=self)

    def place(self, key: str) -> Place:
        """Where a key stands."""
        return Place(self.file, key=f"{self.prefix}{key}")

    def refuse(self, key: str, message: Message) -> NoReturn:
        """Refuse one key: raises `InputError` with its place."""
        raise InputError(message, self.place(key))

    def broken_rule(self, key: str, found: object, rule: str) -> NoReturn:
        """Refuse a value that does not keep a rule, such as "hidden_size % num_attention_heads == 0"."""
        self.refuse(key, BROKEN_RULE(found=shown(found), rule=rule, key=key))

    def contradiction(self, key: str, found: object, accepted: str) -> NoReturn:
        """Refuse a value that does not agree with other keys."""
        self.refuse(key, CONTRADICTION(found=shown(found), accepted=accepted, key=key))

    def not_understood(self, key: str, found: object, accepted: str, direction: str) -> NoReturn:
        """Refuse a value we know nothing of; `direction` says how a guess would be wrong."""
        self.refuse(key, NOT_UNDERSTOOD(found=shown(found), accepted=accepted, direction=direction, key=key))

    def missing(self, key: str, accepted: str) -> NoReturn:
        """Refuse the absence of a key."""
        self.refuse(key, MISSING_THIS(key=key, accepted=accepted))

    def wrong_type(self, key: str, found: object, accepted: str) -> NoReturn:
        """Refuse a value of another type."""
        self.refuse(key, WRONG_TYPE(found=shown(found), accepted=accepted, key=key))

    def raw(self, key: str) -> Any:
        """The value of a key or of its alias, None when absent or null."""
        value = self.mapping.get(key)
        for alias in self._older_names(key):
            other = self.mapping.get(alias)
            if value is not None and other is not None and value != other:
                self.broken_rule(key, value, f"{key} == {alias} == {shown(other)}")
            value = other if value is None else value
        return value

    def has(self, key: str) -> bool:
        """True when the key is written, even as null."""
        return key in self.mapping or any(alias in self.mapping for alias in self._older_names(key))

    def _older_names(self, key: str) -> tuple[str, ...]:
        alias = self.aliases.get(key, ())
        return (alias,) if isinstance(alias, str) else alias

    def _checked(self, key: str, value: object, minimum: int, maximum: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            self.refuse(key, NOT_AN_INTEGER(found=shown(value), key=key))
        if not minimum <= value <= maximum:
            self.refuse(key, OUT_OF_BOUNDS(found=shown(value), minimum=minimum, maximum=maximum, key=key))
        return value

    def integer(self, key: str, default: int | None = None, *, minimum: int = 1, maximum: int = LARGEST) -> int:
        """A whole number. Absent or null: the default, remembered as assumed; without one, an error."""
        value = self.raw(key)
        if value is not None:
            return self._checked(key, value, minimum, maximum)
        if default is None:
            self.refuse(key, MISSING(key=key))
        self.assumed[f"{self.prefix}{key}"] = default
        return default

    def dimension(self, key: str, default: int, *, minimum: int = 1, maximum: int = LARGEST) -> int:
        """A core dimension: required at the top of a file, by default in the text part of a wrapper."""
        return self.integer(key, default if self.nested else None, minimum=minimum, maximum=maximum)

    def optional(self, key: str, default: int | None = None, *, minimum: int = 1, maximum: int = LARGEST) -> int | None:
        """A whole number or None. Null is None; absent is the default, remembered as assumed when a number."""
        value = self.raw(key)
        if value is not None:
            return self._checked(key, value, minimum, maximum)
        if default is None or self.has(key):
            return None
        self.assumed[f"{self.prefix}{key}"] = default
        return default

    def number(self, key: str, default: float) -> float:
        """A number above 0; the default when absent or null."""
        value = self.raw(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= LARGEST:
            self.refuse(key, NOT_A_NUMBER(found=shown(value), key=key))
        return value

    def flag(self, key: str, default: bool) -> bool:
        """True or false; the class default when absent or null."""
        value = self.raw(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.refuse(key, NOT_A_FLAG(found=shown(value), key=key))
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """A string; without a default it is required."""
        value = self.raw(key)
        if value is None:
            if default is None:
                self.refuse(key, MISSING(key=key))
            return default
        if not isinstance(value, str):
            self.refuse(key, NOT_A_TEXT(found=shown(value), key=key))
        return value

    def _list(self, key: str) -> list[Any] | None:
        value = self.raw(key)
        if value is not None and not isinstance(value, list | tuple):
            self.refuse(key, NOT_A_LIST(found=shown(value), key=key))
        return None if value is None else list(value)

    def integers(self, key: str, *, minimum: int = 0, maximum: int = LARGEST) -> tuple[int, ...] | None:
        """A list of whole numbers; None when absent or null."""
        values = self._list(key)
        if values is None:
            return None
        return tuple(self._checked(f"{key}[{index}]", value, minimum, maximum) for index, value in enumerate(values))

    def layer_indices(self, key: str, num_layers: int) -> tuple[int, ...] | None:
        """A list of layers, counted from 0; one after the last contradicts the file."""
        return self.integers(key, maximum=num_layers - 1)

    def texts(self, key: str) -> tuple[str, ...] | None:
        """A list of strings; None when absent or null."""
        values = self._list(key)
        for index, value in enumerate(values or ()):
            if not isinstance(value, str):
                self.refuse(f"{key}[{index}]", NOT_A_TEXT(found=shown(value), key=f"{key}[{index}]"))
        return None if values is None else tuple(values)

    def section(self, key: str) -> Config | None:
        """The object under a key, as a nested view; None when absent or null."""
        value = self.raw(key)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            self.refuse(key, NOT_A_PART(found=shown(value), key=key))
        return Config(value, self.file, prefix=f"{self.prefix}{key}.", parent=self)
