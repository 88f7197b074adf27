"""OPT: learned positions with an offset of two, optional projections around the embedding."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import Heads, full_attention, share_out
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import Piece, attention_pieces, linear, norm, plain_mlp
from capienza.architecture.reading import Config

POSITION_OFFSET = 2
"""Rows of the position table before the first position."""


def build(config: Config) -> Architecture:
    """All layers alike, with full attention."""
    frame = read_frame(
        config,
        hidden_size=768,
        num_hidden_layers=12,
        vocab_size=50272,
        max_position_embeddings=2048,
        tied=True,
    )
    hidden = frame.hidden_size
    count = config.dimension("num_attention_heads", 12)
    heads = Heads(count, count, share_out(config, hidden, count))
    intermediate = config.dimension("ffn_dim", 3072)
    bias = config.flag("enable_bias", True)
    norms = config.flag("layer_norm_elementwise_affine", True)
    block = Block(
        attention=full_attention(config, heads, frame.num_layers),
        mlp=Mlp(kind="dense", intermediate_size=intermediate),
        pieces=[
            *attention_pieces(heads, hidden, bias=bias, output_bias=bias, output="out_proj"),
            *(norm("self_attn_layer_norm", hidden, bias=True) if norms else ()),
            *plain_mlp(hidden, intermediate, up="fc1", down="fc2", bias=bias),
            *(norm("final_layer_norm", hidden, bias=True) if norms else ()),
        ],
    )
    width = config.optional("word_embed_proj_dim") or hidden
    positions = config.integer("max_position_embeddings", 2048) + POSITION_OFFSET
    before: list[Piece] = [
        ("model.decoder.embed_tokens.weight", (frame.vocab_size, width), "embedding"),
        ("model.decoder.embed_positions.weight", (positions, hidden), "position"),
    ]
    if width != hidden:
        before += [
            *linear("model.decoder.project_out", width, hidden, "other"),
            *linear("model.decoder.project_in", hidden, width, "other"),
        ]
    last = norms and config.flag("do_layer_norm_before", True) and not config.flag("_remove_final_layer_norm", False)
    return assemble(
        config,
        frame,
        [block] * frame.num_layers,
        before=before,
        after=norm("model.decoder.final_layer_norm", hidden, bias=True) if last else [],
        blocks_at="model.decoder.layers",
        head=linear("lm_head", frame.vocab_size, width, "head"),
    )
