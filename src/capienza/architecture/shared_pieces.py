"""The tensors of Gemma's attention where a layer may have no keys and values of its own, or none but keys."""

from __future__ import annotations

from capienza.architecture.heads import Heads
from capienza.architecture.pieces import Piece, linear, norm


def own_attention_pieces(
    heads: Heads, hidden: int, *, bias: bool, keys: bool = True, values: bool = True
) -> list[Piece]:
    """Queries and output; `keys` and `values` say which of the others the layer makes for itself."""
    pieces = [
        *linear("self_attn.q_proj", heads.query_width, hidden, "attention", bias),
        *norm("self_attn.q_norm", heads.head_dim),
        *linear("self_attn.o_proj", hidden, heads.query_width, "attention", bias),
    ]
    if keys:
        pieces += linear("self_attn.k_proj", heads.key_width, hidden, "attention", bias)
        pieces += norm("self_attn.k_norm", heads.head_dim)
    if keys and values:
        pieces += linear("self_attn.v_proj", heads.key_width, hidden, "attention", bias)
    return pieces
