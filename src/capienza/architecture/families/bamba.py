"""Bamba: Mamba-2 layers with full attention at stated indices, and a gated MLP in every layer."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import read_heads
from capienza.architecture.mixers import read_mamba2
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import attention_pieces, gated_mlp, norm
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """The layers of `attn_layer_indices` attend, the others keep a state."""
    frame = read_frame(
        config, hidden_size=4096, num_hidden_layers=32, vocab_size=128000, max_position_embeddings=262144
    )
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=32, num_key_value_heads=8)
    mamba = read_mamba2(config, hidden).mixer("mamba")
    bias = config.flag("attention_bias", default=False)
    attending = attention_pieces(heads, hidden, bias=bias, output_bias=bias)
    intermediate = config.dimension("intermediate_size", 14336)
    shared = [
        *gated_mlp(hidden, intermediate, bias=config.flag("mlp_bias", default=False), name="feed_forward"),
        *norm("input_layernorm", hidden),
        *norm("pre_ff_layernorm", hidden),
    ]
    attends = set(config.layer_indices("attn_layer_indices", frame.num_layers) or ())
    blocks = [
        Block(
            attention=heads.attention() if index in attends else None,
            state=None if index in attends else mamba.state,
            mlp=Mlp(kind="dense", intermediate_size=intermediate),
            pieces=[*(attending if index in attends else mamba.pieces), *shared],
        )
        for index in range(frame.num_layers)
    ]
    return assemble(config, frame, blocks, after=norm("model.final_layernorm", hidden))
