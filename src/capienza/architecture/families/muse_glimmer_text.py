"""The text side of Muse Glimmer: gated attention, mostly in windows, and four norms in a layer."""

from __future__ import annotations

from capienza.architecture.forward_parts import dense_forward
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import read_heads
from capienza.architecture.layer_stack import assemble_stack
from capienza.architecture.model import Architecture
from capienza.architecture.muse_attention import muse_attention_pieces, muse_attentions
from capienza.architecture.pieces import norm
from capienza.architecture.plain import FOUR_NORMS
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """Layers differ in their window only."""
    frame = read_frame(
        config, hidden_size=6656, num_hidden_layers=52, vocab_size=202_048, max_position_embeddings=131_072
    )
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=32, num_key_value_heads=2, head_dim=128)
    common = [
        *muse_attention_pieces(config, heads, hidden),
        *(piece for name in FOUR_NORMS for piece in norm(name, hidden)),
    ]
    dense = dense_forward(hidden, config.dimension("intermediate_size", 19968))
    attentions = muse_attentions(config, heads, frame.num_layers)
    return assemble_stack(config, frame, attentions, common, [dense] * frame.num_layers)
