"""`card`: write, check and describe workload cards."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from capienza.card.load import load_card
from capienza.card.model import Card, Host, Task
from capienza.card.new import new_card
from capienza.card.schema import json_schema
from capienza.errors import CapienzaError, Message, template

NOT_OPENED = template(
    "card.model-not-opened",
    "{model} is on the Hub and was not opened: the needs of the server are not compared with it",
    "capienza decide CARD compares them",
)
CANNOT_OPEN = template(
    "card.model-cannot-be-opened",
    "the needs of the server are not compared with the model: {reason}",
    "correct model, then check the card again",
)


def card_check(path: str | Path) -> Card:
    """Read a card. Raises `InputErrors` with every problem of the file."""
    return load_card(path)


def card_findings(card: Card) -> tuple[Message, ...]:
    """Needs of the server that the card states below what is computed of its model.

    The files of a local model are opened for it, a model on the Hub is not: a check reads nothing from the network.
    """
    host = card.host
    if not isinstance(host, Host) or not any(
        isinstance(stated, int) for stated in (host.ram_bytes, host.storage_bytes, host.egress_bytes)
    ):
        return ()
    if card.model.id is not None:
        return (NOT_OPENED(model=card.model.id),)
    from capienza.api.models import model_of
    from capienza.decide.server import contradictions
    from capienza.predict.storage import volumes_of

    try:
        return contradictions(card, volumes_of(card, model_of(card)))
    except CapienzaError as error:
        return (CANNOT_OPEN(reason=str(error)),)


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
