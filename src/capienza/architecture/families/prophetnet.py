"""The decoder of ProphetNet: it predicts several tokens ahead, with a relative bias in each self-attention."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.decoder_notes import note_cross_attention
from capienza.architecture.frame import Frame
from capienza.architecture.heads import Heads, full_attention, share_out
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import Piece, linear, norm, plain_mlp
from capienza.architecture.reading import MAX_LAYERS, Config
from capienza.architecture.seq2seq_parts import DECODER_ONLY

ROOT = "prophetnet.decoder"


def build(config: Config) -> Architecture:
    """All layers alike, with full attention; K and V are kept for the main stream only."""
    config.notes.append(DECODER_ONLY(model_type=config.text("model_type")))
    hidden = config.dimension("hidden_size", 1024)
    frame = Frame(
        hidden_size=hidden,
        num_layers=config.dimension("num_decoder_layers", 12, maximum=MAX_LAYERS),
        vocab_size=config.dimension("vocab_size", 30522),
        max_positions=config.integer("max_position_embeddings", 512),
        tied_head=config.flag("tie_word_embeddings", True),
    )
    count = config.dimension("num_decoder_attention_heads", 16)
    heads = Heads(count, count, share_out(config, hidden, count, "num_decoder_attention_heads"))
    intermediate = config.dimension("decoder_ffn_dim", 4096)
    buckets = config.integer("num_buckets", 32)
    crosses = config.flag("add_cross_attention", True)
    if crosses:
        note_cross_attention(config, heads, frame.num_layers)
    block = Block(
        attention=full_attention(config, heads, frame.num_layers),
        mlp=Mlp(kind="dense", intermediate_size=intermediate),
        pieces=[
            *_attention("self_attn", hidden),
            *linear("self_attn.relative_pos_embeddings", buckets * count, hidden, "attention", bias=True),
            *(_attention("cross_attn", hidden) if crosses else ()),
            *plain_mlp(hidden, intermediate, up="feed_forward.intermediate", down="feed_forward.output"),
            *norm("feed_forward_layer_norm", hidden, bias=True),
        ],
    )
    words = (frame.vocab_size, hidden)
    before: list[Piece] = [("prophetnet.word_embeddings.weight", words, "embedding")]
    if not frame.tied_head:  # the decoder's own table is the shared one only when tied
        before.append((f"{ROOT}.word_embeddings.weight", words, "embedding"))
    before += [
        (f"{ROOT}.position_embeddings.weight", (frame.max_positions or 0, hidden), "position"),
        (f"{ROOT}.ngram_embeddings.weight", (config.integer("ngram", 2), hidden), "position"),
    ]
    return assemble(
        config,
        frame,
        [block] * frame.num_layers,
        before=before,
        after=norm(f"{ROOT}.embeddings_layer_norm", hidden, bias=True),
        blocks_at=f"{ROOT}.layers",
    )


def _attention(name: str, hidden: int) -> list[Piece]:
    """Q, K, V, the output and the norm of one attention."""
    return [
        *(
            piece
            for part in ("query_proj", "key_proj", "value_proj", "out_proj")
            for piece in linear(f"{name}.{part}", hidden, hidden, "attention", bias=True)
        ),
        *norm(f"{name}_layer_norm", hidden, bias=True),
    ]
