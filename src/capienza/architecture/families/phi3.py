"""Phi 3, 3.5 and 4: Q, K and V in one projection, gate and up in another."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import read_heads, uniform_attention
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import layer_norms, linear
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike; a window only where it is stated."""
    frame = read_frame(config, hidden_size=3072, num_hidden_layers=32, vocab_size=32064, max_position_embeddings=4096)
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=32)
    intermediate = config.dimension("intermediate_size", 8192)
    block = Block(
        attention=uniform_attention(config, heads, frame.num_layers, config.optional("sliding_window")),
        mlp=Mlp(kind="dense", intermediate_size=intermediate),
        pieces=[
            *linear("self_attn.o_proj", hidden, heads.query_width, "attention"),
            *linear("self_attn.qkv_proj", heads.query_width + 2 * heads.key_width, hidden, "attention"),
            *linear("mlp.gate_up_proj", 2 * intermediate, hidden, "mlp"),
            *linear("mlp.down_proj", hidden, intermediate, "mlp"),
            *layer_norms(hidden),
        ],
    )
    return assemble(config, frame, [block] * frame.num_layers)
