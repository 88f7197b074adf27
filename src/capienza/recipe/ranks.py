"""How many GPUs share one update, by what the card's placement says."""

from __future__ import annotations

from capienza.card.model import Card, Placement


def data_ranks(card: Card, *, is_shared: bool) -> int:
    """Data parallel GPUs: `placement.data_parallel`, or with a stated sharding all of `placement.gpus`."""
    placement = card.placement if isinstance(card.placement, Placement) else Placement()
    if placement.data_parallel > 1 or not is_shared:
        return placement.data_parallel
    return max(1, (placement.gpus or 1) // (placement.tensor_parallel * placement.pipeline_parallel))


def ranks_field(card: Card) -> str | None:
    """The key of the card that says so; None where it divides nothing."""
    placement = card.placement if isinstance(card.placement, Placement) else Placement()
    if placement.data_parallel > 1:
        return "placement.data_parallel"
    return "placement.gpus" if (placement.gpus or 1) > placement.tensor_parallel * placement.pipeline_parallel else None
