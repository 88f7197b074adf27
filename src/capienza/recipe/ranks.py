"""How many GPUs share one update, by what the card's placement says."""

from __future__ import annotations

from capienza.card.model import Card, Placement
from capienza.errors import InputError
from capienza.recipe.choices import Choices, stated_in


def data_ranks(card: Card, *, is_shared: bool) -> int:
    """Data parallel GPUs: `placement.data_parallel`, or with a stated sharding all of `placement.gpus`."""
    placement = card.placement if isinstance(card.placement, Placement) else Placement()
    if placement.data_parallel > 1 or not is_shared:
        return placement.data_parallel
    return max(1, (placement.gpus or 1) // (placement.tensor_parallel * placement.pipeline_parallel))


def states_sharing(stated: Choices) -> bool:
    """Does a card say that several GPUs share one update, by the name of a library or by its launcher's?"""
    return "fsdp_is_on" in stated or ("sharding" in stated and stated["sharding"].value != "none")


def ranks_of(card: Card) -> int:
    """Data parallel GPUs of a card's run. A card that contradicts itself has those of its placement."""
    if card.training is None:
        return data_ranks(card, is_shared=False)
    try:
        stated = stated_in(card).choices
    except InputError:
        stated = {}
    return data_ranks(card, is_shared=states_sharing(stated))


def ranks_field(card: Card) -> str | None:
    """The key of the card that says so; None where it divides nothing."""
    placement = card.placement if isinstance(card.placement, Placement) else Placement()
    if placement.data_parallel > 1:
        return "placement.data_parallel"
    return "placement.gpus" if (placement.gpus or 1) > placement.tensor_parallel * placement.pipeline_parallel else None
