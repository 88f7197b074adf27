"""Which default holds: the first file of a framework's chain with a row for the versions and the choices so far."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from capienza.card.model import Scalar
from capienza.errors import Message, phrase, template
from capienza.recipe.choices import Choice, Choices
from capienza.recipe.versions import Versions, is_within, numbers

DATA = Path(__file__).parent / "data"
ASSUMED_FILE = "assumed"
_WORD = re.compile(r"(?:^| )[a-z]{2,}(?=[ ,]|$)", re.ASCII)
_OF_CODE = {" null", " all", " default"}

HABIT = template("recipe.habit", "default of {library} {version}: {read_in}")
HABIT_AS_OF = template(
    "recipe.habit-as-of", "default of {library} ({version}, the last one read; the card states no version): {read_in}"
)
HABIT_OF_THEN = template(
    "recipe.habit-of-then",
    "default of {library} at the time of {by}, that is {version} or later; the card states no version: {read_in}",
)
HABIT_ELSEWHERE = template(
    "recipe.habit-elsewhere", "default of {library} {version}, the nearest one read; {stated} may differ: {read_in}"
)
ASSUMED = template("recipe.assumed", "no default is established here; taken: {value}")


class Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One default. `source` names where it was read: a setting, a function or a file of the library.

    `others` are ranges of other libraries that it needs besides, each as `from` and `below`.
    """

    value: Scalar
    source: str
    since: str | None = msgspec.field(default=None, name="from")
    below: str | None = None
    others: dict[str, tuple[str | None, str | None]] = msgspec.field(default_factory=dict, name="with")
    when: dict[str, list[Scalar]] = {}


class Layer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The defaults of one library. `read` says which versions of it were read, the newest last."""

    title: str
    library: str
    read: list[str]
    defaults: dict[str, list[Row]]


class Framework(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A framework: how people write its name, and the files that are asked for a default, in order."""

    title: str
    layers: list[str]
    names: list[str] = []


@functools.cache
def layers() -> dict[str, Layer]:
    """Every file of defaults by its name. What its sources say in words is said in the reader's language."""
    found = {
        path.stem: msgspec.json.decode(path.read_bytes(), type=Layer)
        for path in sorted(DATA.glob("*.json"))
        if path.stem != "frameworks"
    }
    for one in found.values():
        for text in sources_in_words(one):
            phrase(text)
    return found


def sources_in_words(one: Layer) -> Iterator[str]:
    """Sources that are not only names of code, where they are shown: those of an assumption are not."""
    if one.read:
        for row in (row for found in one.defaults.values() for row in found):
            if set(_WORD.findall(row.source)) - _OF_CODE:
                yield row.source


@functools.cache
def frameworks() -> dict[str, Framework]:
    """Every framework whose habits are known, by its plain name."""
    return msgspec.json.decode((DATA / "frameworks.json").read_bytes(), type=dict[str, Framework])


def framework_named(name: str) -> str | None:
    """The plain name of a framework as people write it; None for one without habits here."""
    plain = name.strip().casefold().replace("-", "_").replace(" ", "_")
    for key, one in frameworks().items():
        if plain in (key, *one.names):
            return key
    return None


def default(option: str, framework: str, versions: Versions, so_far: Choices) -> Choice | None:
    """The default of an option. `so_far` are the choices that were made before it."""
    for name in (*frameworks()[framework].layers, ASSUMED_FILE):
        one = layers()[name]
        for row in one.defaults.get(option, ()):
            if _holds(row, one.library, versions) and _fits(row, so_far):
                return Choice(row.value, _source(one, row, versions))
    return None


def rows() -> Iterator[tuple[str, Layer, str, Row]]:
    """Every default: file, its layer, option, row."""
    for name, one in layers().items():
        for option, found in one.defaults.items():
            for row in found:
                yield name, one, option, row


def _holds(row: Row, library: str, versions: Versions) -> bool:
    ranges = {library: (row.since, row.below), **row.others}
    return all(_is_in(versions.of(name), *bounds) for name, bounds in ranges.items())


def _is_in(version: str | None, since: str | None, below: str | None) -> bool:
    """Without a version, the newest one that is known."""
    return below is None if version is None else is_within(version, since, below)


def _fits(row: Row, so_far: Choices) -> bool:
    return all(option in so_far and so_far[option].value in values for option, values in row.when.items())


def _source(one: Layer, row: Row, versions: Versions) -> Message:
    if not one.read:
        return ASSUMED(value=str(row.value).lower())
    library, newest = one.library, one.read[-1]
    stated, guessed = versions.stated.get(library), versions.guessed.get(library)
    if stated is None and guessed is None:
        return HABIT_AS_OF(library=library, version=newest, read_in=row.source)
    if stated is None:
        return HABIT_OF_THEN(library=library, version=guessed, by=versions.by, read_in=row.source)
    at = numbers(stated) or ()
    if (numbers(one.read[0]) or ()) <= at <= (numbers(newest) or ()):
        return HABIT(library=library, version=stated, read_in=row.source)
    nearest = newest if at > (numbers(newest) or ()) else one.read[0]
    return HABIT_ELSEWHERE(library=library, version=nearest, stated=stated, read_in=row.source)
