"""nanochat: norms without parameters, two projections without a gate."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import full_attention, read_heads
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import attention_pieces, plain_mlp
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike, with full attention."""
    frame = read_frame(config, hidden_size=768, num_hidden_layers=12, vocab_size=50304, max_position_embeddings=2048)
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=6)
    intermediate = config.dimension("intermediate_size", 8192)
    bias = config.flag("attention_bias", default=False)
    block = Block(
        attention=full_attention(config, heads, frame.num_layers),
        mlp=Mlp(kind="dense", intermediate_size=intermediate),
        pieces=[
            *attention_pieces(heads, hidden, bias=bias, output_bias=bias),
            *plain_mlp(hidden, intermediate, up="mlp.fc1", down="mlp.fc2", bias=False),
        ],
    )
    return assemble(config, frame, [block] * frame.num_layers, after=())
