"""Nemotron and Minitron: layer norms, two projections without a gate."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import full_attention, read_heads
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import attention_pieces, layer_norms, norm, plain_mlp
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike, with full attention."""
    frame = read_frame(config, hidden_size=6144, num_hidden_layers=32, vocab_size=256_000, max_position_embeddings=4096)
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=48)
    intermediate = config.dimension("intermediate_size", 24576)
    bias, mlp_bias = config.flag("attention_bias", default=False), config.flag("mlp_bias", default=False)
    block = Block(
        attention=full_attention(config, heads, frame.num_layers),
        mlp=Mlp(kind="dense", intermediate_size=intermediate),
        pieces=[
            *attention_pieces(heads, hidden, bias=bias, output_bias=bias),
            *plain_mlp(hidden, intermediate, up="mlp.up_proj", down="mlp.down_proj", bias=mlp_bias),
            *layer_norms(hidden, bias=True),
        ],
    )
    return assemble(config, frame, [block] * frame.num_layers, after=norm("model.norm", hidden, bias=True))
