"""Damage to trees of keys and values."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

from fuzzing.hostile import NASTY, SCALARS, TYPED
from fuzzing.trees import Pairs, Raw, Slot, Tree, put, slots, value_at

Chance = random.Random


def damage_tree(chance: Chance, sound: Tree) -> Tree:
    """One to three changes to values and keys."""
    tree = copy.deepcopy(sound)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        places = slots(tree)
        if not places:
            return another_value(chance, tree)
        if chance.random() < 0.02:
            return another_value(chance, tree)
        chance.choice(TREE_CHANGES)(chance, chance.choice(places))
    return tree


def another_value(chance: Chance, value: Any) -> Any:
    """A value to put in the place of another one."""
    what = chance.random()
    if what < 0.45:
        return chance.choice(SCALARS)
    if what < 0.65 and isinstance(value, int | float):
        factor = chance.choice((2, -1, 10**6, 10**20))
        return chance.choice((value + 1, value - 1, value * factor, value * factor, value + 0.5, str(value), [value]))
    if what < 0.72:
        return chance.choice(TYPED)
    if what < 0.80:
        mappings = (Pairs(), Pairs([("x", value)]), Pairs([("", "")]))
        return chance.choice(([], [value], [value] * 3, [None], [[]], *mappings))
    if what < 0.86:
        depth = chance.choice((5, 20, 40, 100, 1000, 20_000))
        opening, closing = chance.choice((("[", "]"), ('{"a":', "}")))
        return Raw(opening * depth + "1" + closing * chance.choice((depth, depth, 0)))
    if what < 0.91:
        # What is large already must not become larger by as much again.
        count = 10 if isinstance(value, list | str) else chance.choice((50, 1000, 20_000))
        return [value] * count if what < 0.89 else Pairs((f"k{number}", value) for number in range(count))
    return damaged_text(chance, value) if isinstance(value, str) else chance.choice(SCALARS)


def damaged_text(chance: Chance, text: str) -> str:
    at = chance.randrange(len(text) + 1)
    return chance.choice((
        text[:at] + chance.choice(NASTY) + text[at:], text[:at], text.upper(), text * 2, text * 500, f" {text} ",
        text[:at] + text[at + 1 :], text[::-1], text.replace("-", "_"), text + "\u0301",
    ))  # fmt: skip


def change_value(chance: Chance, slot: Slot) -> None:
    put(slot, another_value(chance, value_at(slot)))


def change_key(chance: Chance, slot: Slot) -> None:
    container, index = slot
    if not isinstance(container, Pairs):
        return change_value(chance, slot)
    key, value = container[index]
    changed = damaged_text(chance, key) if isinstance(key, str) and chance.random() < 0.6 else chance.choice(SCALARS)
    container[index] = (changed if isinstance(changed, str) else Raw(changed), value)
    return None


def drop(_: Chance, slot: Slot) -> None:
    container, index = slot
    del container[index]


def repeat(chance: Chance, slot: Slot) -> None:
    container, index = slot
    again = copy.deepcopy(container[index])
    container.insert(chance.randrange(len(container) + 1), again)
    if chance.random() < 0.5:
        change_value(chance, (container, index))


def swap(chance: Chance, slot: Slot) -> None:
    container, _ = slot
    other = chance.randrange(len(container))
    mine, theirs = value_at(slot), value_at((container, other))
    put(slot, theirs)
    put((container, other), mine)


def add_unknown(chance: Chance, slot: Slot) -> None:
    container, _ = slot
    value = chance.choice(SCALARS)
    container.append((f"unknown_{chance.randrange(9)}", value) if isinstance(container, Pairs) else value)


TREE_CHANGES: tuple[Callable[[Chance, Slot], None], ...] = (
    change_value, change_value, change_value, change_value, change_value, change_value, change_key, drop, repeat, swap,
    add_unknown,
)  # fmt: skip
