"""The decoder of an encoder-decoder model, built alone as a language model (BART's layout).

The encoder's tensors are not part of it. Each block holds its cross-attention all the same, which has nothing to
attend to in a run on text alone. Names and shapes: transformers 5.24, modules `*DecoderWrapper`.
"""

from __future__ import annotations

import msgspec

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.decoder_notes import note_cross_attention
from capienza.architecture.frame import Frame
from capienza.architecture.heads import Heads, full_attention, share_out
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import Piece, linear, norm, plain_mlp
from capienza.architecture.reading import MAX_LAYERS, Config
from capienza.errors import template

DECODER_ONLY = template(
    "architecture.decoder-only",
    "only the decoder of {model_type} is described, as the language model that transformers builds of it: the encoder"
    " is not counted, so a model that runs with it needs more",
    "The headers of the model's own files tell the rest.",
)


class Decoder(msgspec.Struct, frozen=True, kw_only=True):
    """How a family's decoder differs from the others; the numbers are the defaults of its config class.

    `table_key` states the rows of the word table. `offset` rows of the position table come before the first
    position. `ties` is false where the head is never tied. The norms lie over the embedding and after the last
    layer.
    """

    layers: int
    heads: int
    ffn: int
    vocab: int
    d_model: int = 1024
    positions: int | None = 1024
    positions_key: str = "max_position_embeddings"
    table_key: str = "vocab_size"
    offset: int = 0
    embedding_norm: bool = False
    last_norm: bool = False
    bias: bool = True
    key_bias: bool = True
    ties: bool = True
    head: str = "lm_head"
    cross_key: str | None = None


def build_decoder(config: Config, decoder: Decoder) -> Architecture:
    """All layers alike: full attention, then attention to the encoder's output. `positions` None is no table."""
    config = config.with_aliases(d_model="hidden_size")
    hidden = config.dimension("d_model", decoder.d_model)
    vocab = config.dimension("vocab_size", decoder.vocab)
    words = config.optional(decoder.table_key) or vocab
    positions = config.integer(decoder.positions_key, decoder.positions or 512)
    frame = Frame(
        hidden_size=hidden,
        num_layers=config.dimension("decoder_layers", decoder.layers, maximum=MAX_LAYERS),
        vocab_size=words,
        max_positions=positions,
        tied_head=config.flag("tie_word_embeddings", True) and decoder.ties,
    )
    count = config.dimension("decoder_attention_heads", decoder.heads)
    heads = Heads(count, count, share_out(config, hidden, count, "decoder_attention_heads"))
    intermediate = config.dimension("decoder_ffn_dim", decoder.ffn)
    cross = (decoder.cross_key and config.optional(decoder.cross_key)) or hidden
    note_cross_attention(config, heads, frame.num_layers)
    block = Block(
        attention=full_attention(config, heads, frame.num_layers),
        mlp=Mlp(kind="dense", intermediate_size=intermediate),
        pieces=[
            *_attention("self_attn", hidden, hidden, decoder),
            *_attention("encoder_attn", hidden, cross, decoder),
            *plain_mlp(hidden, intermediate, up="fc1", down="fc2"),
            *norm("final_layer_norm", hidden, bias=True),
        ],
    )
    root = "model.decoder"
    before: list[Piece] = [(f"{root}.embed_tokens.weight", (words, hidden), "embedding")]
    if decoder.positions is not None:
        before.append((f"{root}.embed_positions.weight", (positions + decoder.offset, hidden), "position"))
    if decoder.embedding_norm:
        before += norm(f"{root}.layernorm_embedding", hidden, bias=True)
    return assemble(
        config,
        frame,
        [block] * frame.num_layers,
        before=before,
        after=norm(f"{root}.layer_norm", hidden, bias=True) if decoder.last_norm else [],
        head=linear(decoder.head, vocab, hidden, "head"),
        blocks_at=f"{root}.layers",
    )


def build_decoder_side(config: Config, decoder: Decoder) -> Architecture:
    """The decoder of a file that also describes an encoder, with the note that says so."""
    config.notes.append(DECODER_ONLY(model_type=config.text("model_type")))
    return build_decoder(config, decoder)


def _attention(name: str, hidden: int, source: int, decoder: Decoder) -> list[Piece]:
    """One attention and its norm; K and V come from vectors of `source` elements."""
    return [
        *linear(f"{name}.q_proj", hidden, hidden, "attention", decoder.bias),
        *linear(f"{name}.k_proj", hidden, source, "attention", decoder.bias and decoder.key_bias),
        *linear(f"{name}.v_proj", hidden, source, "attention", decoder.bias),
        *linear(f"{name}.out_proj", hidden, hidden, "attention", decoder.bias),
        *norm(f"{name}_layer_norm", hidden, bias=True),
    ]
