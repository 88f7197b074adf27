"""XGLM: computed positions, norms before attention and MLP, and cross-attention when it is asked for."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.decoder_notes import note_cross_attention
from capienza.architecture.frame import Frame
from capienza.architecture.heads import Heads, full_attention, share_out
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import attention_pieces, norm, plain_mlp
from capienza.architecture.reading import MAX_LAYERS, Config


def build(config: Config) -> Architecture:
    """All layers alike, with full attention."""
    config = config.with_aliases(
        d_model="hidden_size", num_layers="num_hidden_layers", attention_heads="num_attention_heads"
    )
    hidden = config.dimension("d_model", 1024)
    frame = Frame(
        hidden_size=hidden,
        num_layers=config.dimension("num_layers", 24, maximum=MAX_LAYERS),
        vocab_size=config.dimension("vocab_size", 256_008),
        max_positions=config.integer("max_position_embeddings", 2048),
        tied_head=config.flag("tie_word_embeddings", True),
    )
    count = config.dimension("attention_heads", 16)
    heads = Heads(count, count, share_out(config, hidden, count, "attention_heads"))
    intermediate = config.dimension("ffn_dim", 4096)
    names = ["self_attn"]
    if config.flag("add_cross_attention", False):
        note_cross_attention(config, heads, frame.num_layers)
        names.append("encoder_attn")
    block = Block(
        attention=full_attention(config, heads, frame.num_layers),
        mlp=Mlp(kind="dense", intermediate_size=intermediate),
        pieces=[
            piece
            for name in names
            for piece in (
                *attention_pieces(heads, hidden, bias=True, output_bias=True, name=name, output="out_proj"),
                *norm(f"{name}_layer_norm", hidden, bias=True),
            )
        ]
        + [
            *plain_mlp(hidden, intermediate, up="fc1", down="fc2"),
            *norm("final_layer_norm", hidden, bias=True),
        ],
    )
    return assemble(config, frame, [block] * frame.num_layers, after=norm("model.layer_norm", hidden, bias=True))
