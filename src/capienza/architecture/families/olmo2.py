"""OLMo 2: norms after attention and MLP, and over all of Q and of K together."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import full_attention, read_heads
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import attention_pieces, gated_mlp, norm
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike, with full attention."""
    frame = read_frame(config, hidden_size=4096, num_hidden_layers=32, vocab_size=50304, max_position_embeddings=2048)
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=32)
    intermediate = config.dimension("intermediate_size", 11008)
    bias = config.flag("attention_bias", default=False)
    block = Block(
        attention=full_attention(config, heads, frame.num_layers),
        mlp=Mlp(kind="dense", intermediate_size=intermediate),
        pieces=[
            *attention_pieces(heads, hidden, bias=bias, output_bias=bias),
            *norm("self_attn.q_norm", heads.query_width),
            *norm("self_attn.k_norm", heads.key_width),
            *gated_mlp(hidden, intermediate),
            *norm("post_attention_layernorm", hidden),
            *norm("post_feedforward_layernorm", hidden),
        ],
    )
    return assemble(config, frame, [block] * frame.num_layers)
