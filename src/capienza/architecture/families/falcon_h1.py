"""Falcon-H1: attention and a Mamba-2 mixer side by side in every layer, and a gated MLP."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import read_heads
from capienza.architecture.mixers import read_mamba2
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import attention_pieces, gated_mlp, norm
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike: each keeps a cache that grows and a state that does not."""
    frame = read_frame(config, hidden_size=4096, num_hidden_layers=32, vocab_size=128000, max_position_embeddings=8192)
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=32, num_key_value_heads=8)
    mamba = read_mamba2(
        config,
        hidden,
        inner=config.optional("mamba_d_ssm", 1024),
        output_bias=config.flag("projectors_bias", default=False),
        gated_norm=config.flag("mamba_rms_norm", default=False),
    ).mixer("mamba")
    intermediate = config.dimension("intermediate_size", 14336)
    bias = config.flag("attention_bias", default=False)
    block = Block(
        attention=heads.attention(),
        state=mamba.state,
        mlp=Mlp(kind="dense", intermediate_size=intermediate),
        pieces=[
            *gated_mlp(hidden, intermediate, bias=config.flag("mlp_bias", default=False), name="feed_forward"),
            *mamba.pieces,
            *attention_pieces(heads, hidden, bias=bias, output_bias=bias),
            *norm("input_layernorm", hidden),
            *norm("pre_ff_layernorm", hidden),
        ],
    )
    return assemble(config, frame, [block] * frame.num_layers, after=norm("model.final_layernorm", hidden))
