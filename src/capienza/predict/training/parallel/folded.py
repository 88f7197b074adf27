"""Units of a model as one rank holds them, folded together: of a layer, of the root, of everything.

Legend: a part is what one rank keeps of a unit, a whole is the unit while it is gathered; gradients likewise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from capienza.predict.training.parallel.units import Model, Unit


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of one or several units on a rank; `state_elements` are those of its part that an optimizer has states for.

    `reduced_bytes`: what gradients are reduced from, all units together. `growing_bytes`: the largest of the gradients
    while it is put together, one unit after the other.
    """

    part_bytes: int = 0
    whole_bytes: int = 0
    state_elements: int = 0
    gradient_part_bytes: int = 0
    gradient_whole_bytes: int = 0
    reduced_bytes: int = 0
    growing_bytes: int = 0


class Folded(msgspec.Struct, frozen=True):
    """A model's layers in the order of the forward pass, its root, and all of it."""

    layers: list[Cut]
    root: Cut
    every: Cut


def folded(model: Model, cut: Callable[[Unit], Cut]) -> Folded:
    """The model, each unit cut by a library's rule. Layers that are alike are cut once."""
    known = {layer: together(map(cut, layer)) for layer in set(model.layers)}
    layers = [known[layer] for layer in model.layers]
    root = together(map(cut, model.root))
    return Folded(layers, root, together([*layers, root]))


def together(cuts: Iterable[Cut]) -> Cut:
    """Several units as one."""
    found = list(cuts)
    return Cut(
        part_bytes=sum(cut.part_bytes for cut in found),
        whole_bytes=sum(cut.whole_bytes for cut in found),
        state_elements=sum(cut.state_elements for cut in found),
        gradient_part_bytes=sum(cut.gradient_part_bytes for cut in found),
        gradient_whole_bytes=sum(cut.gradient_whole_bytes for cut in found),
        reduced_bytes=sum(cut.reduced_bytes for cut in found),
        growing_bytes=max((cut.growing_bytes for cut in found), default=0),
    )
