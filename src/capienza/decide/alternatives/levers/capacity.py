"""Another GPU with more memory: of the catalogue, or of the offers. The card file stays as it is."""

from __future__ import annotations

from capienza.decide.alternatives.change import Change, Proposals
from capienza.decide.alternatives.scene import Scene
from capienza.errors import template

NO_GPU_NAMED = template(
    "alternatives.no-gpu-named",
    "no GPU is named, so none is another one",
    "name it with --gpu, or with --offer and --offers",
)
NOT_LARGER = template(
    "alternatives.not-larger", "{count} other kinds of GPU are known to offer no more memory, or of unknown size"
)


SPREAD_OTHERWISE = template(
    "alternatives.spread-otherwise",
    "{count} offers have another number of GPUs for a copy, or too few: they would be a second change",
    "capienza decide judges them all",
)


def capacities(scene: Scene) -> Proposals:
    """Every other GPU that is known to offer more."""
    if scene.gpu is None:
        return Proposals(notes=(NO_GPU_NAMED(),))
    changes = tuple(Change(kind="capacity", card=scene.card, gpu=gpu) for gpu in scene.larger)
    counts = ((NOT_LARGER, scene.not_larger), (SPREAD_OTHERWISE, scene.spread_otherwise))
    return Proposals(changes=changes, notes=tuple(note(count=count) for note, count in counts if count))
