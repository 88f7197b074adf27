"""Which entries of a training are proved from below: those that rest on what the card states, not on a habit.

A habit may be another one in the run that the card describes: another default of another version, or a script's own.
An entry that depends on the format of the trained weights, where that is a habit, is proved for 16 bits.
"""

from __future__ import annotations

import msgspec

from capienza.ledger.entry import Entry
from capienza.predict.training.trained import BYTES
from capienza.recipe.recipe import Dtype, Recipe
from capienza.units import Range

LEAST_BYTES = 2
RESTS_ON: dict[str, tuple[str, ...]] = {
    "widened_weights": ("precision.widens_rest",),
    "untied_head": ("framework",),
    "buffers": ("framework_version",),
    "adapters": ("adapters.rank", "adapters.targets"),
    "trained_copies": ("adapters.modules_to_save",),
    "gradients": ("optimizer.family",),
    "optimizer_states": ("optimizer.family",),
    "optimizer_transient": ("optimizer.family", "optimizer.run"),
    "reference_model": ("preference.reference",),
}
OF_THE_FORMAT = {
    "adapters": "adapters.dtype",
    "gradients": "precision.trained",
    "optimizer_states": "precision.trained",
}
OF_ADAPTERS = ("adapters.rank", "adapters.targets")


def provable(entry: Entry, recipe: Recipe) -> Entry:
    """The entry with the floor that the card itself proves."""
    amount = entry.amount
    fields = RESTS_ON.get(entry.name)
    if amount is None or fields is None or not recipe.origins or not amount.floor:
        return entry
    if entry.name in OF_THE_FORMAT and recipe.adapters is not None:
        fields = (*fields, *OF_ADAPTERS)
    if recipe.parallel.data_ranks > 1:
        fields = (*fields, "parallel.sharding")
    stated = {origin.field for origin in recipe.origins if origin.is_stated}
    floor = amount.floor if stated.issuperset(fields) else 0
    if entry.name in OF_THE_FORMAT and not is_format_stated(recipe):
        floor = floor * LEAST_BYTES // BYTES[trained_dtype(recipe)]
    return entry if floor == amount.floor else msgspec.structs.replace(entry, amount=_lowered(amount, floor))


def trained_dtype(recipe: Recipe) -> Dtype:
    """The format of what is trained."""
    return recipe.precision.trained if recipe.adapters is None else recipe.adapters.dtype


def is_format_stated(recipe: Recipe) -> bool:
    """Does the card itself fix that format? Weights that are all trained are in the format that it states for them."""
    stated = {origin.field for origin in recipe.origins if origin.is_stated}
    if recipe.adapters is not None:
        return "adapters.dtype" in stated
    precision = recipe.precision
    return "precision.trained" in stated or ("precision.base" in stated and precision.base == precision.trained)


def _lowered(amount: Range, floor: int) -> Range:
    return Range(floor, amount.expected, amount.ceiling)
