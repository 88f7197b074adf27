"""`card`: write, check and describe workload cards."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from capienza.card.load import load_card
from capienza.card.model import Card, Task
from capienza.card.new import new_card
from capienza.card.schema import json_schema


def card_check(path: str | Path) -> Card:
    """Read a card. Raises `InputErrors` with every problem of the file."""
    return load_card(path)


def card_new(
    model: str,
    *,
    task: Task = "inference",
    name: str | None = None,
    revision: str | None = None,
    engine: str | None = None,
    gpus: int | None = None,
    translate: Callable[[str], str] = str,
) -> str:
    """The text of a commented card for a Hub id or a local path. Raises `InputErrors` for what cannot be a card."""
    if Path(model).exists() and not model.startswith((".", "/", "~")):
        model = f"./{model}"
    return new_card(model, task=task, name=name, revision=revision, engine=engine, gpus=gpus, translate=translate)


def card_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a card."""
    return json_schema()
