"""What Hunyuan's dense models and mixtures share: attention and the norms of a layer."""

from __future__ import annotations

from capienza.architecture.heads import Heads
from capienza.architecture.pieces import Piece, attention_pieces, layer_norms, norm
from capienza.architecture.reading import Config


def hunyuan_attention(config: Config, heads: Heads, hidden: int) -> list[Piece]:
    """One switch for the four biases, and a norm over each head of Q and of K."""
    bias = config.flag("attention_bias", default=False)
    return [
        *attention_pieces(heads, hidden, bias=bias, output_bias=bias),
        *norm("self_attn.query_layernorm", heads.head_dim),
        *norm("self_attn.key_layernorm", heads.head_dim),
        *layer_norms(hidden),
    ]
