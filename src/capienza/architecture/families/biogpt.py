"""BioGPT: learned positions with an offset of two, norms before attention and MLP."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import Heads, full_attention, share_out
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import attention_pieces, linear, norm, plain_mlp
from capienza.architecture.reading import Config

POSITION_OFFSET = 2
"""Rows of the position table before the first position."""


def build(config: Config) -> Architecture:
    """All layers alike, with full attention."""
    frame = read_frame(
        config,
        hidden_size=1024,
        num_hidden_layers=24,
        vocab_size=42384,
        max_position_embeddings=1024,
        tied=True,
    )
    hidden = frame.hidden_size
    count = config.dimension("num_attention_heads", 16)
    heads = Heads(count, count, share_out(config, hidden, count))
    intermediate = config.dimension("intermediate_size", 4096)
    block = Block(
        attention=full_attention(config, heads, frame.num_layers),
        mlp=Mlp(kind="dense", intermediate_size=intermediate),
        pieces=[
            *attention_pieces(heads, hidden, bias=True, output_bias=True, output="out_proj"),
            *norm("self_attn_layer_norm", hidden, bias=True),
            *plain_mlp(hidden, intermediate, up="fc1", down="fc2"),
            *norm("final_layer_norm", hidden, bias=True),
        ],
    )
    positions = (frame.max_positions or 0) + POSITION_OFFSET
    return assemble(
        config,
        frame,
        [block] * frame.num_layers,
        before=[
            ("biogpt.embed_tokens.weight", (frame.vocab_size, hidden), "embedding"),
            ("biogpt.embed_positions.weight", (positions, hidden), "position"),
        ],
        after=norm("biogpt.layer_norm", hidden, bias=True),
        head=linear("output_projection", frame.vocab_size, hidden, "head"),
        blocks_at="biogpt.layers",
    )
