"""Phi 1, 1.5 and 2: biases everywhere, one norm for attention and MLP together."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import full_attention, read_heads, share_out
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import Piece, attention_pieces, linear, norm, plain_mlp
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike, with full attention."""
    frame = read_frame(config, hidden_size=2048, num_hidden_layers=24, vocab_size=51200, max_position_embeddings=2048)
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=32)
    intermediate = config.dimension("intermediate_size", 8192)
    head_norms: list[Piece] = []
    if config.flag("qk_layernorm", False):
        width = share_out(config, hidden, heads.num_attention_heads)  # not the stated head size
        head_norms = [
            *norm("self_attn.q_layernorm", width, bias=True),
            *norm("self_attn.k_layernorm", width, bias=True),
        ]
    block = Block(
        attention=full_attention(config, heads, frame.num_layers),
        mlp=Mlp(kind="dense", intermediate_size=intermediate),
        pieces=[
            *attention_pieces(heads, hidden, bias=True, output_bias=True, output="dense"),
            *head_norms,
            *plain_mlp(hidden, intermediate, up="mlp.fc1", down="mlp.fc2"),
            *norm("input_layernorm", hidden, bias=True),
        ],
    )
    return assemble(
        config,
        frame,
        [block] * frame.num_layers,
        after=norm("model.final_layernorm", hidden, bias=True),
        head=linear("lm_head", frame.vocab_size, hidden, "head", bias=True),
    )
