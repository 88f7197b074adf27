"""What no alternative may touch (DESIGN rule 9): the requirement of a card, as one comparable value.

Legend, fine-tuning: m microbatch, a accumulation, d data-parallel copies, each on its own part of the load.
    effective batch = m x a x d
"""

from __future__ import annotations

from typing import Any

from capienza.card.model import Card
from capienza.card.options import plain_name
from capienza.recipe.ranks import ranks_of

SAME = (
    "name", "task", "tokens", "concurrency", "reserve", "margin", "quality", "host", "budget", "calendar",
    "preferences", "ranking",
)  # fmt: skip
SAME_MODEL = ("id", "revision", "path", "parameters")
RECIPE = frozenset({
    "activation_offloading", "attention", "gradient_checkpointing", "loss", "offload_optimizer", "offload_param",
})  # fmt: skip
"""Options of the recipe that say how it is computed; all others say what is trained."""


def requirement(card: Card) -> dict[str, Any]:
    """Every field of the card that a change must leave as it is."""
    found: dict[str, Any] = {name: getattr(card, name) for name in SAME}
    found |= {f"model.{name}": getattr(card.model, name) for name in SAME_MODEL}
    found["engine"] = (card.engine.name, card.engine.version) if card.engine else None
    training = card.training
    if training is not None:
        kept = {name: value for name, value in training.options.items() if plain_name(name) not in RECIPE}
        found["training"] = (training.method, training.rank, kept)
    elif card.task == "fine-tuning":
        found["training"] = (None, None, {})
    if card.task == "fine-tuning":
        found["effective_batch"] = effective_batch(card)
    return found


def effective_batch(card: Card) -> int | None:
    """Sequences of one optimizer step; None where the card leaves it open."""
    if card.microbatch is None or card.accumulation is None:
        return None
    return card.microbatch * card.accumulation * ranks_of(card)


def keeps_requirement(card: Card, changed: Card) -> bool:
    """Does the changed card ask for the same?

    Where the effective batch is open, neither microbatch nor data parallelism may change.
    """
    if requirement(card) != requirement(changed):
        return False
    if card.task != "fine-tuning" or effective_batch(card) is not None:
        return True
    return (card.microbatch, card.accumulation, ranks_of(card)) == (
        changed.microbatch,
        changed.accumulation,
        ranks_of(changed),
    )
