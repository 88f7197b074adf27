"""How one copy is divided: tensors, pipeline stages, copies; in a fine-tuning shards of one run.

A division needs its number of GPUs, which the card states with it. It is offered only within the GPUs at hand: those
of the offer, those asked for, or up to 8 of a GPU that is only named. Copies of a fine-tuning share its effective
batch, so that each accumulates less.
"""

from __future__ import annotations

from collections.abc import Iterator

from capienza.card.model import NONE, Card, Placement
from capienza.decide.alternatives.change import Change, Proposals, Value, change, engine_path
from capienza.decide.alternatives.scene import Scene
from capienza.errors import template
from capienza.predict.served import PARALLEL_OPTIONS
from capienza.recipe.ranks import ranks_of

DEGREES = (2, 4, 8)
NOT_APPLICABLE = template("alternatives.placement-none", "the card writes placement: none")
ONE_GPU = template(
    "alternatives.no-more-gpus",
    "GPUs at hand: {gpus}; every other division needs more, or could not keep the load",
    "name more of them with --gpu NAMExN, or an offer that has more",
)
FIELDS = ("tensor_parallel", "pipeline_parallel", "data_parallel")


def placements(scene: Scene) -> Proposals:
    """One degree of one division each."""
    placement = scene.card.placement
    if placement == NONE:
        return Proposals(notes=(NOT_APPLICABLE(),))
    current = placement if isinstance(placement, Placement) else Placement()
    changes = tuple(_divided(scene, current))
    return Proposals(changes=changes, notes=() if changes else (ONE_GPU(gpus=scene.available),))


def _divided(scene: Scene, current: Placement) -> Iterator[Change]:
    for field in FIELDS:
        for degree in (1, *DEGREES):
            found = _division(scene, current, field, degree)
            if found is not None:
                yield found


def _division(scene: Scene, current: Placement, field: str, degree: int) -> Change | None:
    """The change to one degree; None where it is the current one, needs more GPUs, or cannot keep the batch.

    Every entry of a GPU depends on how the copy is divided, so it acts on all that are unknown.
    """
    card = scene.card
    is_training = card.task == "fine-tuning"
    # With a stated sharding all of a training's `gpus` work on one update.
    copies = ranks_of(card) if is_training else current.data_parallel
    is_implied = copies != current.data_parallel
    present = copies if field == "data_parallel" else getattr(current, field)
    if degree == present or (field == "data_parallel" and degree > _most_copies(card)):
        return None
    degrees = {name: getattr(current, name) for name in FIELDS} | {"data_parallel": copies, field: degree}
    per_copy = degrees["tensor_parallel"] * degrees["pipeline_parallel"]
    needed = per_copy * degrees["data_parallel"]
    after: dict[str, Value] = {f"placement.{field}": degree}
    if is_training and field == "data_parallel":
        steps = _steps(card, copies, degree)
        if steps is None or (current.gpus or per_copy) not in (per_copy, per_copy * copies):
            return None
        if is_implied:
            after.clear()
        after |= {"placement.gpus": needed, "accumulation": steps}
    elif current.gpus is not None and field != "data_parallel":
        # The ranks of a training are one run: its `gpus` are all of them.
        after["placement.gpus"] = needed if is_training else per_copy
    if needed > scene.available:
        return None
    after |= _told(card, field, degree)
    return change("placement", card, after, scene.now.peak.missing)


def _most_copies(card: Card) -> int:
    """Copies that have something to do: each serves a sequence at least; shards of a fine-tuning always do."""
    return DEGREES[-1] if card.task == "fine-tuning" else card.concurrency or 1


def _steps(card: Card, copies: int, degree: int) -> int | None:
    """The accumulation with which the effective batch stays; None where it cannot."""
    if card.microbatch is None or card.accumulation is None:
        return None
    whole = card.accumulation * copies
    return whole // degree if whole % degree == 0 else None


def _told(card: Card, field: str, degree: int) -> dict[str, Value]:
    """The engine's own option for it, where the card also writes that."""
    options = card.engine.options if card.engine else {}
    names = [name for name, same in PARALLEL_OPTIONS.items() if same == field]
    plain = {name.replace("-", "_").casefold() for name in options}
    return {engine_path(card, name): degree for name in names if name in plain}
