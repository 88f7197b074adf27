"""The text side of Cosmos 3 Edge: an MLP without a gate; the head is never the embedding."""

from __future__ import annotations

import msgspec

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import full_attention, read_heads
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import attention_pieces, layer_norms, plain_mlp
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike, with full attention."""
    frame = read_frame(
        config, hidden_size=2048, num_hidden_layers=28, vocab_size=131_072, max_position_embeddings=131_072
    )
    frame = msgspec.structs.replace(frame, tied_head=False)
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=16, num_key_value_heads=8, head_dim=128)
    bias = config.flag("attention_bias", default=False)
    intermediate = config.dimension("intermediate_size", 9216)
    mlp_bias = config.flag("mlp_bias", default=False)
    block = Block(
        attention=full_attention(config, heads, frame.num_layers),
        mlp=Mlp(kind="dense", intermediate_size=intermediate),
        pieces=[
            *attention_pieces(heads, hidden, bias=bias, output_bias=bias),
            *plain_mlp(hidden, intermediate, up="mlp.fc1", down="mlp.fc2", bias=mlp_bias),
            *layer_norms(hidden),
        ],
    )
    return assemble(config, frame, [block] * frame.num_layers)
