"""Command R and R+: one norm for attention and MLP together; R+ has norms of its own for each head of Q and K."""

from __future__ import annotations

from capienza.architecture.forward_parts import dense_forward
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import full_attention, read_heads
from capienza.architecture.layer_stack import assemble_stack
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import Piece, attention_pieces, norm
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike, with full attention."""
    frame = read_frame(
        config,
        hidden_size=8192,
        num_hidden_layers=40,
        vocab_size=256_000,
        max_position_embeddings=8192,
        tied=True,
    )
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=64)
    bias = config.flag("attention_bias", default=False)
    norms: list[Piece] = []
    if config.flag("use_qk_norm", default=False):
        norms = [
            ("self_attn.q_norm.weight", (heads.num_attention_heads, heads.head_dim), "norm"),
            ("self_attn.k_norm.weight", (heads.num_key_value_heads, heads.head_dim), "norm"),
        ]
    return assemble_stack(
        config,
        frame,
        [full_attention(config, heads, frame.num_layers)] * frame.num_layers,
        [*attention_pieces(heads, hidden, bias=bias, output_bias=bias), *norms, *norm("input_layernorm", hidden)],
        [dense_forward(hidden, config.dimension("intermediate_size", 22528))] * frame.num_layers,
    )
