"""Muse's attention: a gate on the output, windows in three layers of four counted back from the last."""

from __future__ import annotations

from capienza.architecture.heads import Heads
from capienza.architecture.model import Attention
from capienza.architecture.pieces import Piece, attention_pieces, linear
from capienza.architecture.reading import Config
from capienza.architecture.window_patterns import ruled_attentions


def muse_attentions(config: Config, heads: Heads, num_layers: int) -> list[Attention]:
    """Layers as `layer_types` says, else full in the last one and in every fourth before it."""
    return ruled_attentions(
        config, heads, num_layers, window=2048, full=lambda index: (num_layers - 1 - index) % 4 == 0
    )


def muse_attention_pieces(config: Config, heads: Heads, hidden: int) -> list[Piece]:
    """The projections; the norms over Q, K and the output hold nothing."""
    bias = config.flag("attention_bias", default=False)
    return [
        *attention_pieces(heads, hidden, bias=bias, output_bias=bias),
        *linear("self_attn.gate_proj", heads.query_width, hidden, "attention"),
    ]
