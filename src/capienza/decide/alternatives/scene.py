"""Where a search for alternatives begins: the card on its GPU, what else could be had, and what is predicted now."""

from __future__ import annotations

import msgspec

from capienza.card.model import Card
from capienza.card.options import plain_name
from capienza.decide.alternatives.change import Value
from capienza.decide.alternatives.gpu import Gpu
from capienza.decide.alternatives.predicted import Predicted
from capienza.decide.alternatives.requirement import option_of
from capienza.predict.model import Model
from capienza.recipe.recipe import Recipe


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """The current configuration. `gpu` None: none is named.

    `gpus` are those of one copy, `available` all that a placement may use. `larger` are the other GPUs that offer
    more memory, `not_larger` how many others do not, `spread_otherwise` the offers that need another number of GPUs.
    `training` is the recipe with its habits, where the card leaves none of it open.
    """

    card: Card
    model: Model
    gpu: Gpu | None
    gpus: int
    available: int
    now: Predicted
    margin_bytes: int
    larger: tuple[Gpu, ...] = ()
    not_larger: int = 0
    spread_otherwise: int = 0
    training: Recipe | None = None

    def option(self, name: str) -> Value:
        """The engine option of that plain name; None where the card does not state it."""
        options = self.card.engine.options if self.card.engine else {}
        return next((value for key, value in options.items() if plain_name(key) == name), None)

    def recipe(self, name: str) -> Value:
        """The option of the recipe of that name, or of a framework's own; None where the card does not state it."""
        options = self.card.training.options if self.card.training else {}
        return next((value for key, value in options.items() if option_of(key) == name), None)

    @property
    def shortfall_bytes(self) -> int | None:
        """What the expected need and the margin lack of the smallest usable capacity; None where that is unknown."""
        if self.now.usable_bytes is None:
            return None
        return max(0, self.now.peak.amount.expected + self.margin_bytes - self.now.usable_bytes)
