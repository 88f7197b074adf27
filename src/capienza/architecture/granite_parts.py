"""What the Granite mixtures share: experts under `block_sparse_moe` and a shared MLP with a fused input."""

from __future__ import annotations

from capienza.architecture.model import Mlp
from capienza.architecture.pieces import Piece, fused_experts, linear, read_experts
from capienza.architecture.reading import Config


def granite_mixture(config: Config, hidden: int, shared_width: int) -> tuple[Mlp, list[Piece]]:
    """Experts, and a shared MLP when it has a width."""
    experts, chosen = read_experts(config, "num_local_experts", 8, per_token=2)
    intermediate = config.dimension("intermediate_size", 11008)
    mlp = Mlp(
        kind="experts",
        intermediate_size=intermediate,
        num_experts=experts,
        num_experts_per_token=chosen,
        num_shared_experts=1 if shared_width else 0,
    )
    pieces = [
        *linear("block_sparse_moe.router", experts, hidden, "router"),
        *fused_experts(experts, hidden, intermediate, name="block_sparse_moe.experts"),
    ]
    return mlp, pieces


def granite_shared_mlp(hidden: int, width: int) -> list[Piece]:
    """Gate and up in one projection, and down; nothing when it has no width."""
    if not width:
        return []
    return [
        *linear("shared_mlp.input_linear", 2 * width, hidden, "mlp"),
        *linear("shared_mlp.output_linear", hidden, width, "mlp"),
    ]
