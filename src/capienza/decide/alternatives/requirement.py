"""What no alternative may touch (DESIGN rule 9): the requirement of a card, as one comparable value.

Legend, fine-tuning: m microbatch, a accumulation, d data-parallel copies, each on its own part of the load.
    effective batch = m x a x d
"""

from __future__ import annotations

from typing import Any

from capienza.card.model import Card
from capienza.card.options import plain_name
from capienza.card.training_spellings import SPELLINGS
from capienza.recipe.ranks import ranks_of

SAME = (
    "name", "task", "tokens", "concurrency", "reserve", "margin", "quality", "host", "budget", "calendar",
    "preferences", "ranking",
)  # fmt: skip
SAME_MODEL = ("id", "revision", "path", "parameters")
RECIPE = frozenset({
    "activation_offloading", "adapter_dtype", "attention", "eval_accumulation_steps", "eval_keeps_logits",
    "eval_microbatch", "export_device", "gradient_checkpointing", "kernels", "loss", "offload", "optimizer",
    "optimizer_in_backward", "optimizer_library", "optimizer_run", "optimizer_states", "paged",
})  # fmt: skip
"""Options of the recipe that say how it is computed; all others say what is trained."""
ADAPTERS = frozenset({"rank", "targets"})
"""Options without which a method that trains adapters is none."""


def option_of(name: str) -> str:
    """The option of the recipe that a name stands for: a card may write a framework's own."""
    plain = plain_name(name)
    return SPELLINGS[plain].option if plain in SPELLINGS else plain


def requirement(card: Card, *, is_other_method: bool = False) -> dict[str, Any]:
    """Every field of the card that a change must leave as it is; `is_other_method`: but how the model is trained."""
    found: dict[str, Any] = {name: getattr(card, name) for name in SAME}
    found |= {f"model.{name}": getattr(card.model, name) for name in SAME_MODEL}
    found["engine"] = (card.engine.name, card.engine.version) if card.engine else None
    training = card.training
    if training is not None:
        free = RECIPE | ADAPTERS if is_other_method else RECIPE
        kept = {name: value for name, value in training.options.items() if option_of(name) not in free}
        found["training"] = kept if is_other_method else (training.method, training.rank, kept)
    elif card.task == "fine-tuning":
        found["training"] = {} if is_other_method else (None, None, {})
    if card.task == "fine-tuning":
        found["effective_batch"] = effective_batch(card)
    return found


def effective_batch(card: Card) -> int | None:
    """Sequences of one optimizer step; None where the card leaves it open."""
    if card.microbatch is None or card.accumulation is None:
        return None
    return card.microbatch * card.accumulation * ranks_of(card)


def keeps_requirement(card: Card, changed: Card, *, is_other_method: bool = False) -> bool:
    """Does the changed card ask for the same, or for the same of another method?

    Where the effective batch is open, neither microbatch nor data parallelism may change.
    """
    if requirement(card, is_other_method=is_other_method) != requirement(changed, is_other_method=is_other_method):
        return False
    if card.task != "fine-tuning" or effective_batch(card) is not None:
        return True
    return (card.microbatch, card.accumulation, ranks_of(card)) == (
        changed.microbatch,
        changed.accumulation,
        ranks_of(changed),
    )
