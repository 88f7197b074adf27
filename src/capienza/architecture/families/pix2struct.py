"""Pix2Struct: a decoder like T5's behind an image encoder; the first layer holds the table of distances."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.decoder_notes import note_cross_attention
from capienza.architecture.decoder_wrapper import decoder_part
from capienza.architecture.frame import Frame
from capienza.architecture.heads import Heads
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import Piece, linear, norm
from capienza.architecture.reading import MAX_LAYERS, Config

TYPES = ("pix2struct_text_model",)


def build(config: Config) -> Architecture:
    """The decoder of the text part; the whole file says whether its head is tied."""
    whole = config.flag("tie_word_embeddings", default=False)
    config = decoder_part(config, "text_config", TYPES).with_aliases(
        num_heads=("num_attention_heads", "decoder_attention_heads", "encoder_attention_heads"),
        num_layers=("num_hidden_layers", "decoder_layers", "encoder_layers"),
    )
    hidden = config.dimension("hidden_size", 768)
    frame = Frame(
        hidden_size=hidden,
        num_layers=config.dimension("num_layers", 12, maximum=MAX_LAYERS),
        vocab_size=config.dimension("vocab_size", 50244),
        max_positions=None,
        tied_head=whole,
    )
    count = config.dimension("num_heads", 12)
    size = config.integer("d_kv", 64)
    if count * size != hidden:
        config.broken_rule("d_kv", size, f"d_kv == hidden_size / num_heads == {hidden} / {count}")
    heads = Heads(count, count, size)
    note_cross_attention(config, heads, frame.num_layers)
    width = config.dimension("d_ff", 2048)
    pieces = [
        *_attention("self_attention", hidden),
        *_attention("encoder_decoder_attention", hidden),
        *linear("mlp.DenseReluDense.wi_0", width, hidden, "mlp"),
        *linear("mlp.DenseReluDense.wi_1", width, hidden, "mlp"),
        *linear("mlp.DenseReluDense.wo", hidden, width, "mlp"),
        *norm("mlp.layer_norm", hidden),
    ]
    buckets = config.integer("relative_attention_num_buckets", 32)
    table: Piece = ("self_attention.attention.relative_attention_bias.weight", (buckets, count), "position")
    mlp = Mlp(kind="dense", intermediate_size=width)
    first = Block(attention=heads.attention(), mlp=mlp, pieces=[*pieces, table])
    other = Block(attention=heads.attention(), mlp=mlp, pieces=pieces)
    return assemble(
        config,
        frame,
        [first, *[other] * (frame.num_layers - 1)],
        before=[("embed_tokens.weight", (frame.vocab_size, hidden), "embedding")],
        after=norm("final_layer_norm", hidden),
        blocks_at="layer",
    )


def _attention(name: str, hidden: int) -> list[Piece]:
    """One attention and the norm before it."""
    return [
        *(
            piece
            for part in ("query", "key", "value", "output")
            for piece in linear(f"{name}.attention.{part}", hidden, hidden, "attention")
        ),
        *norm(f"{name}.layer_norm", hidden),
    ]
