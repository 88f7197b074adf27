"""Granite 3 with experts: full attention, and a shared MLP beside the experts where one is stated."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import read_frame
from capienza.architecture.granite_parts import granite_mixture, granite_shared_mlp
from capienza.architecture.heads import read_heads
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import attention_pieces, layer_norms
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike; only `granitemoeshared` knows a shared MLP."""
    frame = read_frame(config, hidden_size=4096, num_hidden_layers=32, vocab_size=32000, max_position_embeddings=2048)
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=32)
    bias = config.flag("attention_bias", default=False)
    shared_width = 0
    if config.text("model_type") == "granitemoeshared":
        shared_width = config.integer("shared_intermediate_size", 0, minimum=0)
    mlp, experts = granite_mixture(config, hidden, shared_width)
    block = Block(
        attention=heads.attention(),
        mlp=mlp,
        pieces=[
            *attention_pieces(heads, hidden, bias=bias, output_bias=bias),
            *layer_norms(hidden),
            *experts,
            *granite_shared_mlp(hidden, shared_width),
        ],
    )
    return assemble(config, frame, [block] * frame.num_layers)
