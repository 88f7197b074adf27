"""The decoders of MusicGen and MusicGen Melody: a table and a head for each codebook of the audio.

Transformers builds them from the file's `decoder` part. Legend: codebook one of the parallel streams of codes, whose
vectors are summed into one place of the sequence.
"""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.decoder_notes import note_cross_attention
from capienza.architecture.frame import Frame
from capienza.architecture.heads import Heads, full_attention, share_out
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import Piece, attention_pieces, norm, plain_mlp
from capienza.architecture.reading import MAX_EXPERTS, MAX_LAYERS, MISSING, Config
from capienza.architecture.seq2seq_parts import DECODER_ONLY

ROOT = "model.decoder"


def build_musicgen(config: Config, *, crosses: bool) -> Architecture:
    """All layers alike, with full attention; the heads are never tied."""
    part = config.section("decoder")
    if part is None:
        config.refuse("decoder", MISSING(key="decoder"))
    config.notes.append(DECODER_ONLY(model_type=config.text("model_type")))
    part = Config({**part.mapping, "model_type": config.text("model_type")}, part.file, prefix=part.prefix, parent=part)
    hidden = part.dimension("hidden_size", 1024)
    frame = Frame(
        hidden_size=hidden,
        num_layers=part.dimension("num_hidden_layers", 24, maximum=MAX_LAYERS),
        vocab_size=part.dimension("vocab_size", 2048),
        max_positions=part.integer("max_position_embeddings", 2048),
        tied_head=False,
    )
    count = part.dimension("num_attention_heads", 16)
    heads = Heads(count, count, share_out(part, hidden, count))
    intermediate = part.dimension("ffn_dim", 4096)
    names = ("self_attn", "encoder_attn") if crosses else ("self_attn",)
    if crosses:
        note_cross_attention(part, heads, frame.num_layers)
    pieces: list[Piece] = []
    for name in names:
        pieces += attention_pieces(heads, hidden, name=name, output="out_proj")
        pieces += norm(f"{name}_layer_norm", hidden, bias=True)
    pieces += plain_mlp(hidden, intermediate, up="fc1", down="fc2", bias=False)
    pieces += norm("final_layer_norm", hidden, bias=True)
    block = Block(
        attention=full_attention(part, heads, frame.num_layers),
        mlp=Mlp(kind="dense", intermediate_size=intermediate),
        pieces=pieces,
    )
    books = range(part.integer("num_codebooks", 4, maximum=MAX_EXPERTS))
    words = frame.vocab_size + 1  # one more for what is not filled yet
    return assemble(
        part,
        frame,
        [block] * frame.num_layers,
        before=[(f"{ROOT}.embed_tokens.{book}.weight", (words, hidden), "embedding") for book in books],
        after=norm(f"{ROOT}.layer_norm", hidden, bias=True),
        head=[(f"lm_heads.{book}.weight", (frame.vocab_size, hidden), "head") for book in books],
        blocks_at=f"{ROOT}.layers",
    )
