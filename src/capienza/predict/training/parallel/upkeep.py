"""What an optimizer keeps and makes for each element of a rank's part, for any optimizer.

AdamW of PyTorch is of `states.adam`. Of any other optimizer the states of the sharded tensors, as
`predict.training.states` has them, are taken as so many bytes an element: FSDP1's parts are of one dimension, FSDP2's
are cut by rows, DeepSpeed's are one vector in fp32.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from capienza.architecture.model import Architecture
from capienza.predict.training.parallel.states import Upkeep, adam
from capienza.predict.training.parallel.units import share
from capienza.predict.training.states import states_of
from capienza.predict.training.trained import BYTES, Trained, num_trained, trained_tensors
from capienza.predict.training.transient import ROOT_LISTS, transient
from capienza.recipe.recipe import Recipe

WIDE_BYTES = 4


def upkeep_of(architecture: Architecture, recipe: Recipe) -> Upkeep:
    """Bytes of states and of a step's own for each trained element of a rank."""
    optimizer, size = recipe.optimizer, trained_bytes(recipe)
    if optimizer.library == "torch" and optimizer.family in ("adamw", "adam") and not optimizer.state_bits:
        return adam(size, is_foreach=optimizer.run == "foreach")
    tensors = tuple(_parts(architecture, recipe, size))
    if recipe.parallel.sharding.startswith("zero"):
        # The copy in fp32 is DeepSpeed's own, and counted there.
        recipe = replace(recipe, precision=replace(recipe.precision, master=None))
    elements = max(1, num_trained(tensors))
    state_bytes = states_of(tensors, recipe).allocated_bytes / elements
    if optimizer.library == "torch" and optimizer.run == "foreach" and optimizer.family in ROOT_LISTS:
        return Upkeep(state_bytes, float(ROOT_LISTS[optimizer.family] * size))
    taken = transient(tensors, architecture, recipe)
    return Upkeep(state_bytes, 0.0, 0 if taken is None else taken.expected)


def trained_bytes(recipe: Recipe) -> int:
    """Bytes of an element of what the optimizer steps."""
    if recipe.parallel.sharding.startswith("zero"):
        return WIDE_BYTES
    is_wide = recipe.parallel.parameter_dtype is not None and recipe.parallel.sharding != "ddp"
    adapters = recipe.adapters
    return BYTES["fp32" if is_wide else adapters.dtype if adapters is not None else recipe.precision.trained]


def _parts(architecture: Architecture, recipe: Recipe, size: int) -> Iterator[Trained]:
    """The trained tensors as a rank's optimizer sees them."""
    ranks, sharding = recipe.parallel.shard_ranks, recipe.parallel.sharding
    for one in trained_tensors(architecture, recipe):
        shape = one.shape
        if sharding == "fsdp2" and len(shape) > 1:
            shape = (share(shape[0], ranks), *shape[1:])
        elif sharding not in ("ddp", "none"):
            shape = (share(one.elements, ranks),)
        yield replace(one, shape=shape, bytes_per_element=size)
