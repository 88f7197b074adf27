"""A few options as the tree that the YAML reader would give: the same fields, refused with the same sentences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from capienza.errors import InputError, Place, Template, template
from capienza.records.fields import FIELDS
from capienza.records.kinds import CLAIM_VALUE
from capienza.yamlmarks import Node
from capienza.yamlmarks.scalars import plain_scalar

NOT_KEY_VALUE = template("records.not-key-and-value", "expected NAME=VALUE, got {found}", "Write gpu=rtx4090.")
TWICE = template("records.key-twice", "{found} is given twice", "Keep one of the two.")


def option_tree(values: Mapping[str, Any]) -> Node:
    """The options as the YAML reader would give them."""
    keys: dict[str, Node] = {}
    for key, value in values.items():
        if key == "scope":
            stated = _pairs(value, key)
            keys[key] = _node({name: _option(f"scope.{name}", text) for name, text in stated.items()})
        elif key == "claims":
            items = _pairs(value, key).items()
            keys[key] = _node(
                [_node({"quantity": _node(name), "value": _option("claims.value", text)}) for name, text in items]
            )
        elif isinstance(value, Mapping):
            keys[key] = _node({name: _node(text) for name, text in value.items()})
        elif isinstance(value, list | tuple):
            keys[key] = _node([_node(text) for text in value])
        else:
            keys[key] = _option(key, value)
    return _node(keys)


def _pairs(texts: Iterable[str], key: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not (name and sign and value):
            raise InputError(NOT_KEY_VALUE(found=text[:60]), Place(key=key))
        if name in found:
            raise InputError(TWICE(found=name[:60]), Place(key=key))
        found[name] = value
    return found


def _option(path: str, text: str) -> Node:
    """The text of an option; a number where the form takes one."""
    kind = next((field.kind for field in FIELDS if field.path == path), None)
    if kind is not CLAIM_VALUE and (kind is None or kind.schema.get("type") != "integer"):
        return _node(text)
    value = plain_scalar(text)
    if isinstance(value, Template):
        raise InputError(value(found=text[:40]), Place(key=path))
    return _node(value)


def _node(value: Any) -> Node:
    return Node(value, 0, 0)
