"""DiffLlama: Llama's block whose attention is a difference of two, weighed by four learned vectors."""

from __future__ import annotations

from capienza.architecture.forward_parts import dense_forward
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import full_attention, read_heads
from capienza.architecture.layer_stack import assemble_stack
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import Piece, attention_pieces, layer_norms
from capienza.architecture.reading import Config

LAMBDAS = ("lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2")


def build(config: Config) -> Architecture:
    """All layers alike, with full attention; the values are split in two halves of heads."""
    frame = read_frame(config, hidden_size=2048, num_hidden_layers=16, vocab_size=32000, max_position_embeddings=2048)
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=32)
    if heads.num_key_value_heads % 2:
        config.broken_rule("num_key_value_heads", heads.num_key_value_heads, "num_key_value_heads % 2 == 0")
    bias = config.flag("attention_bias", default=False)
    lambdas: list[Piece] = [(f"self_attn.{name}", (heads.head_dim,), "attention") for name in LAMBDAS]
    return assemble_stack(
        config,
        frame,
        [full_attention(config, heads, frame.num_layers)] * frame.num_layers,
        [*attention_pieces(heads, hidden, bias=bias, output_bias=bias), *lambdas, *layer_norms(hidden)],
        [dense_forward(hidden, config.dimension("intermediate_size", 8192))] * frame.num_layers,
    )
