"""Bounded JSON: an object of limited size and depth, without repeated keys, NaN or numbers beyond 64 bits.

Keys in errors are written as a path: `text_config.rope_scaling.factor`, `layer_types[3]`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from capienza.artifacts.source import Source, key_at, legible
from capienza.errors import InputError, Place, template

MAX_DOCUMENT_BYTES = 8 * 1024**2
MAX_VALUES = 150_000
"""They bound the objects that decoding makes. A config with 21 000 labels, there and back, has 42 000."""
MAX_DEPTH = 32

TOO_LARGE = template(
    "artifacts.json-too-large",
    "has {found} B; at most {accepted} B are read",
    "this is not a model's configuration: check the file",
)
TOO_MANY_VALUES = template(
    "artifacts.json-too-many-values",
    "has {found} values; at most {accepted} are read",
    "this is not a model's configuration: check the file",
)
TOO_DEEP = template(
    "artifacts.json-too-deep",
    "is nested more than {accepted} levels deep",
    "this is not a model's configuration: check the file",
)
NOT_JSON = template(
    "artifacts.json-not-valid",
    "is not valid JSON: {reason}",
    "correct the file, or download it again",
)
NOT_AN_OBJECT = template(
    "artifacts.json-not-an-object",
    "holds {found}, where a JSON object is expected",
    "correct the file, or download it again",
)
DUPLICATE_KEY = template(
    "artifacts.json-duplicate-key",
    "is given twice",
    "keep one of the two: programs disagree about which one counts",
)
BAD_NUMBER = template(
    "artifacts.json-bad-number",
    "is {found}; a finite number of at most 64 bits is accepted",
    "correct the number",
)
BAD_TEXT = template(
    "artifacts.json-bad-text",
    "holds half of a surrogate pair, which is no text",
    "correct the text",
)

# A text without its closing quote counts as one too: searched again from each quote inside, it would cost its square.
_BRACKETS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
_KINDS = {list: "[...]", str: '"..."', bool: "true, false", int: "0", float: "0.0", type(None): "null"}


def read_json(source: Source) -> dict[str, Any]:
    """The object in a JSON file. Raises `InputError` with file, line and column or key."""
    if source.size_bytes > MAX_DOCUMENT_BYTES:
        raise InputError(TOO_LARGE(found=source.size_bytes, accepted=MAX_DOCUMENT_BYTES), Place(source.name))
    data = source.read(0, source.size_bytes)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(NOT_JSON(reason=f"UTF-8: {error.reason}"), Place(source.name, line)) from error
    _check_size(text, source.name)

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) != len(pairs):
            key = _first_repeated(pairs)
            raise InputError(DUPLICATE_KEY(), key_at(source.name, key))
        return made

    try:
        value = json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise InputError(NOT_JSON(reason=error.msg), Place(source.name, error.lineno, error.colno)) from error
    except ValueError as error:  # a number with thousands of digits
        raise InputError(NOT_JSON(reason=str(error)), Place(source.name)) from error
    if not isinstance(value, dict):
        raise InputError(NOT_AN_OBJECT(found=_KINDS[type(value)]), Place(source.name))
    for path, leaf in _leaves("", value):
        _check_leaf(path, leaf, source.name)
    return value


def _first_repeated(pairs: list[tuple[str, Any]]) -> str:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            return key
        seen.add(key)
    raise AssertionError(pairs)


def _check_size(text: str, name: str) -> None:
    values = max(text.count(",") + text.count("[") + text.count("{"), text.count('"') // 4)
    if values > MAX_VALUES:
        raise InputError(TOO_MANY_VALUES(found=values, accepted=MAX_VALUES), Place(name))
    depth = 0
    for match in _BRACKETS.finditer(text):
        mark = match[0]
        if mark in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                line = text.count("\n", 0, match.start()) + 1
                raise InputError(TOO_DEEP(accepted=MAX_DEPTH), Place(name, line))
        elif mark in "]}":
            depth -= 1


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield path, key
            yield from _leaves(f"{path}.{key}" if path else key, inner)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _leaves(f"{path}[{index}]", inner)
    else:
        yield path, value


def _check_leaf(path: str, leaf: Any, name: str) -> None:
    if isinstance(leaf, float) and not math.isfinite(leaf):
        raise InputError(BAD_NUMBER(found=str(leaf)), key_at(name, path))
    if isinstance(leaf, int) and not -(2**63) <= leaf < 2**64:
        raise InputError(BAD_NUMBER(found=legible(str(leaf))), key_at(name, path))
    if isinstance(leaf, str):
        try:
            leaf.encode()
        except UnicodeEncodeError as error:
            raise InputError(BAD_TEXT(), key_at(name, path)) from error
