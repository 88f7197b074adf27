"""Reading the keys of a `quantization_config`: every problem is found before one is raised."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from capienza.errors import InputError, InputErrors, Place, template
from capienza.formats.blocks import unknown
from capienza.formats.layout import Layout, Rule, Style
from capienza.formats.matching import checked

ROOT = "quantization_config"

BAD_VALUE = template(
    "formats.quantization-value",
    "found {found}; accepted: {accepted}",
    "correct the value, or size the weights from the checkpoint's own tensors",
)
UNKNOWN_KEY = template(
    "formats.quantization-key",
    "the key {found} is not known here; it may change what is stored",
    "remove it if it has no effect on the weights, or size them from the checkpoint's own tensors",
)
MISSPELT_KEY = template(
    "formats.quantization-key-misspelt",
    "the key {found} is not known here; did you mean {suggestion}?",
    "correct it, or remove it if it has no effect on the weights",
)
MISSING_KEY = template("formats.quantization-missing", "this key is missing; accepted: {accepted}", "add it")


class Keys:
    """The keys of one mapping, taken one by one; `done` reports what is wrong or left over."""

    def __init__(self, config: Mapping[str, Any], file: str | None, method: str, path: str = ROOT) -> None:
        self.config = config
        self.file = file
        self.method = method
        self.path = path
        self.taken: set[str] = set()
        self.problems: list[InputError] = []

    def place(self, key: str = "") -> Place:
        """Where a key stands."""
        return Place(self.file, key=f"{self.path}.{key}" if key else self.path)

    def ignore(self, *keys: str) -> None:
        """Accept keys that say nothing about what is stored."""
        self.taken.update(keys)

    def flag(self, key: str, default: bool = False) -> bool:
        """A true or false; null and absent give the default."""
        found = self._take(key)
        if found is None or isinstance(found, bool):
            return default if found is None else found
        self.refuse(key, found, ("true", "false"))
        return default

    def integer(self, key: str, accepted: Iterable[int], default: int | None = None) -> int:
        """One of the accepted whole numbers; without a default the key must be there."""
        accepted = tuple(accepted)
        found = self._take(key)
        if found is None and default is not None:
            return default
        if found is None:
            self.problems.append(InputError(MISSING_KEY(accepted=_texts(accepted)), self.place(key)))
        elif isinstance(found, bool) or not isinstance(found, int) or found not in accepted:
            self.refuse(key, found, accepted)
        else:
            return found
        return accepted[0]

    def group(self, key: str, default: int | None) -> int | None:
        """A group size: a positive whole number, or -1 for one group in a row, given back as None."""
        found = self._take(key)
        if found is None:
            return default
        if isinstance(found, bool) or not isinstance(found, int) or not (found == -1 or 0 < found < 2**31):
            self.refuse(key, found, (">= 1", "-1"))
            return default
        return None if found == -1 else found

    def word(self, key: str, accepted: Iterable[str], default: str | None = None) -> str:
        """One of the accepted words, in any case; without a default the key must be there."""
        accepted = tuple(accepted)
        found = self._take(key)
        if found is None and default is not None:
            return default
        if found is None:
            self.problems.append(InputError(MISSING_KEY(accepted=accepted), self.place(key)))
        elif not isinstance(found, str) or found.lower() not in accepted:
            self.refuse(key, found, accepted)
        else:
            return found.lower()
        return accepted[0]

    def names(self, *keys: str) -> tuple[str, ...] | None:
        """A list of names under the first of these keys that has one; None when there is none."""
        given: tuple[str, ...] | None = None
        for key in keys:
            found = self._take(key)
            if found is None:
                continue
            if not isinstance(found, list | tuple) or not all(isinstance(name, str) for name in found):
                self.refuse(key, found, ('["...", ...]',))
            elif given is None:
                given = tuple(name for name in found if name)
        return given

    def mapping(self, key: str) -> Mapping[str, Any] | None:
        """A nested mapping; null and absent give None."""
        found = self._take(key)
        if found is None or isinstance(found, Mapping):
            return found
        self.refuse(key, found, ("{...}",))
        return None

    def raw(self, key: str) -> Any:
        """The value of a key whose shape the caller checks."""
        return self._take(key)

    def rule(self, style: Style, key: str, patterns: tuple[str, ...], layout: Layout | None = None) -> Rule:
        """A rule for the modules that a key's patterns name. Raises `InputError` for an unsafe pattern."""
        return Rule(style, checked(style, patterns, self.place(key)), layout)

    def refuse(self, key: str, found: object, accepted: Iterable[object]) -> None:
        """Note a value that is not accepted."""
        message = BAD_VALUE(found=repr(found)[:64], accepted=_texts(accepted))
        self.problems.append(InputError(message, self.place(key)))

    def leftovers(self) -> list[InputError]:
        """Every problem found, unknown keys included."""
        for key in self.config:
            if key not in self.taken:
                message = unknown(UNKNOWN_KEY, MISSPELT_KEY, str(key), sorted(self.taken))
                self.problems.append(InputError(message, self.place(str(key)[:64])))
        return self.problems[:20]

    def done(self) -> None:
        """Raise `InputErrors` with every problem, if there is any."""
        problems = self.leftovers()
        if problems:
            raise InputErrors(problems)

    def _take(self, key: str) -> Any:
        self.taken.add(key)
        return self.config.get(key)


def _texts(values: Iterable[object]) -> tuple[str, ...]:
    return tuple(str(value) for value in values)
