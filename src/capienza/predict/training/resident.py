"""Everything of a training on one GPU that does not depend on the pass: computed once, added up by the ledger."""

from __future__ import annotations

import msgspec

from capienza.architecture.model import Architecture
from capienza.formats.scheme import Scheme
from capienza.predict.training.base import Base, base_of, scheme_of
from capienza.predict.training.export import merge_bytes
from capienza.predict.training.load import Loading, loading, looks_at_order
from capienza.predict.training.modules import alike, pieces
from capienza.predict.training.runtime import batch_bytes, scalars_bytes, workspaces_bytes
from capienza.predict.training.states import States, states_of
from capienza.predict.training.trained import Trained, block_bytes, trained_of
from capienza.predict.training.transient import looks_at_neighbours, transient
from capienza.recipe.recipe import Recipe
from capienza.units import Range


class Resident(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes in bytes as the allocator counts them. `transient` None: the optimizer's step is not known.

    `trained` is one tensor of each kind, with how many there are.
    """

    base: Base
    trained: tuple[Trained, ...]
    gradients_bytes: int
    adapters_bytes: int
    copies_bytes: int
    states: States
    transient: Range | None
    loading: Loading
    workspaces_bytes: int
    batch_bytes: int
    scalars_bytes: int
    merge_bytes: int

    @property
    def after_bytes(self) -> int:
        """What is allocated when training has returned (torch.cuda.memory_allocated)."""
        return (
            self.base.total_bytes
            + self.loading.slack_bytes
            + self.adapters_bytes
            + self.copies_bytes
            + self.states.allocated_bytes
            + self.workspaces_bytes
            + self.batch_bytes
            + self.scalars_bytes
        )


def resident_of(architecture: Architecture, recipe: Recipe, scheme: Scheme | None = None) -> Resident:
    """What one GPU before Hopper holds. `scheme` is the quantisation of the model's files.

    Raises `InputError` for a matrix that the format cannot pack.
    """
    made = pieces(architecture, recipe)
    kinds = alike(made)
    tensors = trained_of(kinds, recipe)
    whole = scheme_of(recipe, scheme)
    # Where the quantisation has rules by name, every piece is a kind of its own.
    held = made if whole is not None and whole.rules else kinds
    loaded = made if looks_at_order(recipe, whole) else held
    stepped = trained_of(made, recipe) if looks_at_neighbours(recipe) else tensors
    return Resident(
        base=base_of(architecture, recipe, scheme, held),
        trained=tensors,
        gradients_bytes=block_bytes(tensors),
        adapters_bytes=block_bytes(one for one in tensors if one.kind == "adapter"),
        copies_bytes=block_bytes(one for one in tensors if one.kind == "copy"),
        states=states_of(tensors, recipe),
        transient=transient(stepped, architecture, recipe),
        loading=loading(architecture, recipe, scheme, loaded),
        workspaces_bytes=workspaces_bytes(None),
        batch_bytes=batch_bytes(recipe),
        scalars_bytes=scalars_bytes(recipe),
        merge_bytes=merge_bytes(kinds, recipe),
    )
