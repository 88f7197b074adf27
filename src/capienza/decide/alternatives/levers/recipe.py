"""The recipe of a fine-tuning: how it is computed, never what is trained.

Nothing of this is predicted yet but the weights: the entries that such a change acts on are unknown, and so is its
effect. A smaller microbatch comes with as much more accumulation, so that a step still sees the same sequences.
"""

from __future__ import annotations

from collections.abc import Callable

from capienza.card.fields import MAX_COUNT
from capienza.card.options import as_flag
from capienza.decide.alternatives.change import Proposals, change, training_path
from capienza.decide.alternatives.levers.texts import ALREADY, NOT_TRAINED
from capienza.decide.alternatives.scene import Scene
from capienza.errors import template

BATCH_OPEN = template(
    "alternatives.batch-open",
    "the card does not state {fields}, so an effective batch cannot be kept",
    "write {fields}",
)
SMALLEST = template("alternatives.smallest-microbatch", "the microbatch is 1 already")
TOO_MANY_STEPS = template(
    "alternatives.too-many-steps",
    "a microbatch below {microbatch} would need more accumulation than the {most} that a card may state",
)
OPTIMIZERS = ("adamw_8bit", "paged_adamw_8bit", "paged_adamw_32bit", "adafactor")
ATTENTIONS = ("flash_attention_2", "sdpa")
LOSSES = ("liger", "chunked")
STATES = ("optimizer_states", "optimizer_transient", "checkpoint")
NOT_CHECKPOINTED = ("none", "no", "off")


def only_training(offer: Callable[[Scene], Proposals]) -> Callable[[Scene], Proposals]:
    """The same, of a fine-tuning alone."""

    def offered(scene: Scene) -> Proposals:
        is_training = scene.card.task == "fine-tuning"
        return offer(scene) if is_training else Proposals(notes=(NOT_TRAINED(),))

    return offered


@only_training
def microbatches(scene: Scene) -> Proposals:
    """Halves of the microbatch down to 1, with more accumulation."""
    card, size, steps = scene.card, scene.card.microbatch, scene.card.accumulation
    if size is None or steps is None:
        fields = tuple(name for name in ("microbatch", "accumulation") if getattr(card, name) is None)
        return Proposals(notes=(BATCH_OPEN(fields=fields),))
    if size == 1:
        return Proposals(notes=(SMALLEST(),))
    halves = [size >> power for power in range(1, size.bit_length()) if size % (1 << power) == 0]
    smaller = [one for one in dict.fromkeys((*halves, 1)) if size // one * steps <= MAX_COUNT]
    if not smaller:
        return Proposals(notes=(TOO_MANY_STEPS(microbatch=size, most=MAX_COUNT),))
    changes = (
        change(
            "microbatch",
            card,
            {"microbatch": one, "accumulation": size // one * steps},
            ("activations", "logits_and_loss"),
        )
        for one in smaller
    )
    return Proposals(changes=tuple(changes))


@only_training
def checkpointing(scene: Scene) -> Proposals:
    """Activations are computed again in the backward pass instead of being kept."""
    found = scene.recipe("gradient_checkpointing")
    if found is not None and as_flag(found) is not False and str(found).casefold() not in NOT_CHECKPOINTED:
        return Proposals(notes=(ALREADY(found=f"training.gradient_checkpointing: {str(found).lower()}"),))
    after = {training_path(scene.card, "gradient_checkpointing"): True}
    return Proposals(changes=(change("checkpointing", scene.card, dict(after), ("activations",)),))


@only_training
def optimizers(scene: Scene) -> Proposals:
    """Optimizers whose states take fewer bytes, or leave the card under pressure."""
    training = scene.card.training
    current = (training.optimizer if training else None) or ""
    return Proposals(
        changes=tuple(
            change("optimizer", scene.card, {"training.optimizer": name}, STATES)
            for name in OPTIMIZERS
            if name != current.casefold()
        )
    )


@only_training
def losses(scene: Scene) -> Proposals:
    """A loss that never holds all logits at once."""
    path, current = training_path(scene.card, "loss"), str(scene.recipe("loss")).casefold()
    return Proposals(
        changes=tuple(
            change("loss", scene.card, {path: name}, ("logits_and_loss", "evaluation"))
            for name in LOSSES
            if name != current
        )
    )


def training_attention(scene: Scene) -> Proposals:
    """Kernels that do not keep the matrix of scores."""
    path, current = training_path(scene.card, "attention"), str(scene.recipe("attention")).casefold()
    return Proposals(
        changes=tuple(
            change("attention", scene.card, {path: name}, ("activations",)) for name in ATTENTIONS if name != current
        )
    )
