"""The recipe of a fine-tuning: how it is computed, and another method that trains less.

A smaller microbatch comes with as much more accumulation, so that a step still sees the same sequences. Another method
is another model in the end: what was shown of its quality has to be shown anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from capienza.card.fields import MAX_COUNT
from capienza.card.options import as_flag
from capienza.decide.alternatives.change import Proposals, Value, change, recipe_lines
from capienza.decide.alternatives.levers.texts import ALREADY, NOT_TRAINED
from capienza.decide.alternatives.requirement import option_of
from capienza.decide.alternatives.scene import Scene
from capienza.errors import template
from capienza.recipe.optimizers import optimizer_named

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
BY_HABIT = template("alternatives.by-habit", "the framework does it by itself: {field} is {found}")
METHOD_OPEN = template("alternatives.method-open", "the card states no method", "write training.method")
OPTIMIZERS = (
    "adamw_torch_fused", "adamw_8bit", "paged_adamw_8bit", "paged_adamw_32bit", "adamw_torch_4bit", "adafactor",
)  # fmt: skip
ATTENTIONS = ("flash_attention_2", "sdpa")
LOSSES = ("liger", "chunked")
STATES = ("optimizer_states", "optimizer_transient", "checkpoint")
PARTS = ("optimizer_library", "optimizer_run", "optimizer_states", "paged")
"""What a card may say of its optimizer beside the name: of another one it says nothing."""
PASS = ("activations", "logits_and_loss", "pass_temporaries")
NOT_CHECKPOINTED = ("none", "no", "off")
USUAL_RANK, USUAL_TARGETS, USUAL_FORMAT = 16, "all-linear", "nf4"
"""What another method takes where the card has none of it: written, so that it can be changed."""


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
        change("microbatch", card, {"microbatch": one, "accumulation": size // one * steps}, PASS) for one in smaller
    )
    return Proposals(changes=tuple(changes))


@only_training
def checkpointing(scene: Scene) -> Proposals:
    """Activations are computed again in the backward pass instead of being kept."""
    found = scene.recipe("gradient_checkpointing")
    if found is not None and as_flag(found) is not False and str(found).casefold() not in NOT_CHECKPOINTED:
        return Proposals(notes=(ALREADY(found=f"training.gradient_checkpointing: {str(found).lower()}"),))
    if found is None and scene.training is not None and scene.training.checkpointing.kind != "none":
        kind = scene.training.checkpointing.kind
        return Proposals(notes=(BY_HABIT(field="training.gradient_checkpointing", found=kind),))
    after = recipe_lines(scene.card, "gradient_checkpointing", True)
    return Proposals(changes=(change("checkpointing", scene.card, after, PASS),))


@only_training
def optimizers(scene: Scene) -> Proposals:
    """Optimizers whose states or temporaries take fewer bytes, or that keep no gradients."""
    card, training = scene.card, scene.card.training
    current = str((training.optimizer if training else None) or scene.recipe("optimizer") or "")
    names = [name for name in OPTIMIZERS if optimizer_named(name) != optimizer_named(current)]
    of_the_old = {f"training.{key}": None for key in (training.options if training else {}) if option_of(key) in PARTS}
    changes = [
        change("optimizer", card, {**of_the_old, **recipe_lines(card, "optimizer", name)}, STATES) for name in names
    ]
    if as_flag(scene.recipe("optimizer_in_backward")) is not True:
        after = recipe_lines(card, "optimizer_in_backward", True)
        changes.append(change("optimizer", card, after, (*STATES, "gradients")))
    return Proposals(changes=tuple(changes))


@only_training
def methods(scene: Scene) -> Proposals:
    """Adapters beside frozen weights instead of all weights; the base may then be held in four bits."""
    card = scene.card
    method = card.training.method if card.training else None
    if method is None:
        return Proposals(notes=(METHOD_OPEN(),))
    if method != "full":
        return Proposals(notes=(ALREADY(found=f"training.method: {method}"),))
    touched = ("adapters", "gradients", *STATES, *PASS)
    return Proposals(
        changes=tuple(change("method", card, dict(_adapted(scene, name)), touched) for name in ("lora", "qlora"))
    )


def _adapted(scene: Scene, method: str) -> Iterator[tuple[str, Value]]:
    card = scene.card
    yield "training.method", method
    yield "training.rank", USUAL_RANK
    yield from recipe_lines(card, "targets", USUAL_TARGETS).items()
    if method == "qlora" and card.weights.format is not None:
        yield "weights.format", USUAL_FORMAT


@only_training
def adapters(scene: Scene) -> Proposals:
    """Adapters in the format of the base instead of fp32."""
    recipe = scene.training
    if recipe is None or recipe.adapters is None:
        method = scene.card.training.method if scene.card.training else None
        return Proposals(notes=(ALREADY(found=f"training.method: {method}") if method else METHOD_OPEN(),))
    if recipe.adapters.dtype != "fp32" or recipe.precision.base == "fp32":
        return Proposals(notes=(BY_HABIT(field="training.adapter_dtype", found=recipe.adapters.dtype),))
    after = recipe_lines(scene.card, "adapter_dtype", recipe.precision.base)
    return Proposals(changes=(change("adapters", scene.card, after, ("adapters", "gradients", *STATES)),))


@only_training
def losses(scene: Scene) -> Proposals:
    """A loss that never holds all logits at once, alone or with the other kernels of Liger."""
    card, current = scene.card, str(scene.recipe("loss")).casefold()
    touched = ("logits_and_loss", "evaluation", "activations")
    changes = [change("loss", card, recipe_lines(card, "loss", name), touched) for name in LOSSES if name != current]
    if scene.training is None or scene.training.kernels == "transformers":
        changes.append(change("loss", card, recipe_lines(card, "kernels", "liger"), touched))
    return Proposals(changes=tuple(changes))


def training_attention(scene: Scene) -> Proposals:
    """Kernels that do not keep the matrix of scores."""
    current = str(scene.recipe("attention")).casefold()
    return Proposals(
        changes=tuple(
            change("attention", scene.card, recipe_lines(scene.card, "attention", name), ("activations",))
            for name in ATTENTIONS
            if name != current
        )
    )
