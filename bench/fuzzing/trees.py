"""Trees of keys and values that may be wrong on purpose, and their text in JSON and YAML.

A mapping is `Pairs`, so that a key can be there twice; `Raw` is text that is written as it is.
"""

from __future__ import annotations

import json
from typing import Any


class Pairs(list[tuple[Any, Any]]):
    """A mapping as a list of (key, value)."""


class Raw(str):
    """Written without quotes, whatever it is."""

    __slots__ = ()


Tree = Any
Slot = tuple[list[Any], int]


def tree_of(value: Any) -> Tree:
    """A tree from plain dicts, lists and scalars."""
    if isinstance(value, dict):
        return Pairs((key, tree_of(inner)) for key, inner in value.items())
    if isinstance(value, list | tuple):
        return [tree_of(inner) for inner in value]
    return value


def slots(tree: Tree) -> list[Slot]:
    """Every place that holds a value, as (container, index)."""
    found: list[Slot] = []
    waiting = [tree]
    while waiting:
        container = waiting.pop()
        if not isinstance(container, list):
            continue
        for index, member in enumerate(container):
            found.append((container, index))
            waiting.append(member[1] if isinstance(container, Pairs) else member)
    return found


def value_at(slot: Slot) -> Any:
    container, index = slot
    return container[index][1] if isinstance(container, Pairs) else container[index]


def put(slot: Slot, value: Any) -> None:
    container, index = slot
    container[index] = (container[index][0], value) if isinstance(container, Pairs) else value


def scalar(value: Any) -> str:
    return value if isinstance(value, Raw) else json.dumps(value, ensure_ascii=False)


def as_json(tree: Tree) -> str:
    """JSON text, as wrong as the tree."""
    if isinstance(tree, Pairs):
        return "{" + ", ".join(f"{scalar(key)}: {as_json(value)}" for key, value in tree) + "}"
    if isinstance(tree, list):
        return "[" + ", ".join(map(as_json, tree)) + "]"
    return scalar(tree)


def as_yaml(tree: Tree, indent: str = "") -> str:
    """Block YAML for the mappings, JSON for everything inside lists."""
    if not isinstance(tree, Pairs) or not tree:
        return as_json(tree) + "\n"
    lines = []
    for key, value in tree:
        name = key if isinstance(key, str) and key.isidentifier() else scalar(key)
        if isinstance(value, Pairs) and value:
            lines.append(f"{indent}{name}:\n{as_yaml(value, indent + '  ')}")
        else:
            lines.append(f"{indent}{name}: {as_json(value)}\n")
    return "".join(lines)
