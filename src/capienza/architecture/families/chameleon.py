"""Chameleon: words and image codes in one sequence; a layer norm over each head of Q and K."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import full_attention, read_heads
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import Piece, attention_pieces, gated_mlp, layer_norms
from capienza.architecture.reading import Config
from capienza.architecture.wrapper import TEXT_SIDE


def build(config: Config) -> Architecture:
    """All layers alike; `swin_norm` only moves the norms. The part that makes codes of an image is not counted."""
    frame = read_frame(config, hidden_size=4096, num_hidden_layers=32, vocab_size=65536, max_position_embeddings=4096)
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=32, num_key_value_heads=32, shared_out=True)
    bias = config.flag("attention_bias", default=False)
    width = config.dimension("intermediate_size", 11008)
    counts = {"q_norm": heads.num_attention_heads, "k_norm": heads.num_key_value_heads}
    head_norms: list[Piece] = [
        (f"self_attn.{name}.{part}", (count, heads.head_dim), "norm")
        for name, count in counts.items()
        for part in ("weight", "bias")
    ]
    config.notes.append(TEXT_SIDE(model_type=config.text("model_type")))
    block = Block(
        attention=full_attention(config, heads, frame.num_layers),
        mlp=Mlp(kind="dense", intermediate_size=width),
        pieces=[
            *attention_pieces(heads, hidden, bias=bias, output_bias=bias),
            *head_norms,
            *gated_mlp(hidden, width, bias=config.flag("mlp_bias", default=False)),
            *layer_norms(hidden),
        ],
    )
    return assemble(config, frame, [block] * frame.num_layers)
