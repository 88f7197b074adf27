"""StarCoder 2: an MLP without a gate, layer norms and biases."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import read_heads, uniform_attention
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import attention_pieces, layer_norms, norm, plain_mlp
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike; a window only where it is stated."""
    frame = read_frame(
        config,
        hidden_size=3072,
        num_hidden_layers=30,
        vocab_size=49152,
        max_position_embeddings=4096,
        tied=True,
    )
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=24, num_key_value_heads=2)
    intermediate = config.dimension("intermediate_size", 12288)
    bias = config.flag("use_bias", default=True)
    block = Block(
        attention=uniform_attention(config, heads, frame.num_layers, config.optional("sliding_window")),
        mlp=Mlp(kind="dense", intermediate_size=intermediate),
        pieces=[
            *attention_pieces(heads, hidden, bias=bias, output_bias=bias),
            *plain_mlp(hidden, intermediate, up="mlp.c_fc", down="mlp.c_proj", bias=bias),
            *layer_norms(hidden, bias=True),
        ],
    )
    return assemble(config, frame, [block] * frame.num_layers, after=norm("model.norm", hidden, bias=True))
