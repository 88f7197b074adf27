"""OLMo: layer norms without any parameter."""

from __future__ import annotations

from capienza.architecture.assembly import assemble
from capienza.architecture.forward_parts import dense_forward, layer_block
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import full_attention, read_heads
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import attention_pieces
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike, with full attention."""
    frame = read_frame(config, hidden_size=4096, num_hidden_layers=32, vocab_size=50304, max_position_embeddings=2048)
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=32)
    bias = config.flag("attention_bias", default=False)
    block = layer_block(
        hidden,
        dense_forward(hidden, config.dimension("intermediate_size", 11008)),
        attention_pieces(heads, hidden, bias=bias, output_bias=bias),
        attention=full_attention(config, heads, frame.num_layers),
        norms=(),
    )
    return assemble(config, frame, [block] * frame.num_layers, after=())
