"""BERT and its relatives with a language-model head: what they state, their blocks and their heads.

Legend: width elements of an embedding, which a projection may bring to the hidden size; types the kinds of token a
table tells apart. The head multiplies a transformed vector by the word table, and has a bias of its own.
Names and shapes: transformers 5.24, modules `*Embeddings`, `*Layer` and `*LMPredictionHead`.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.decoder_notes import note_cross_attention
from capienza.architecture.frame import Frame, read_frame
from capienza.architecture.heads import Heads, full_attention, share_out
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import Piece, linear, norm
from capienza.architecture.reading import Config
from capienza.errors import template

BOTH_WAYS = template(
    "architecture.not-a-decoder",
    "is_decoder is not true: transformers builds the same language-model class, but its attention looks both ways;"
    " generation still keeps K and V of every token, and they are counted",
    "Set is_decoder to true for a model that was trained to continue a text.",
)
IGNORED_POSITIONS = template(
    "architecture.ignored-relative-positions",
    "position_embedding_type = {found} is stated, but transformers 5.24 builds the model without the table of relative"
    " positions: files that hold one are larger than counted",
    "Compare with the headers of the model's own files.",
)


class Bert(msgspec.Struct, frozen=True, kw_only=True):
    """What a config of the family states; `crosses` when each block also attends to an encoder."""

    frame: Frame
    heads: Heads
    intermediate: int
    crosses: bool

    @property
    def hidden(self) -> int:
        """Width of the residual stream."""
        return self.frame.hidden_size


def read_bert(
    config: Config,
    *,
    vocab_size: int,
    hidden_size: int = 768,
    num_hidden_layers: int = 12,
    num_attention_heads: int = 12,
    intermediate_size: int = 3072,
    max_position_embeddings: int = 512,
    ties: bool = True,
) -> Bert:
    """The numbers of a config; the arguments are the defaults of its class. Without `ties` the head is never tied."""
    frame = read_frame(
        config,
        hidden_size=hidden_size,
        num_hidden_layers=num_hidden_layers,
        vocab_size=vocab_size,
        max_position_embeddings=max_position_embeddings,
        tied=ties,
    )
    if not ties:
        frame = msgspec.structs.replace(frame, tied_head=False)
    count = config.dimension("num_attention_heads", num_attention_heads)
    heads = Heads(count, count, share_out(config, frame.hidden_size, count))
    crosses = config.flag("add_cross_attention", False)
    if not config.flag("is_decoder", False):
        if crosses:
            config.broken_rule("add_cross_attention", True, "is_decoder == true")
        config.notes.append(BOTH_WAYS())
    if crosses:
        note_cross_attention(config, heads, frame.num_layers)
    positions = config.text("position_embedding_type", "absolute")
    if positions != "absolute":
        config.notes.append(IGNORED_POSITIONS(found=positions))
    return Bert(
        frame=frame,
        heads=heads,
        intermediate=config.dimension("intermediate_size", intermediate_size),
        crosses=crosses,
    )


def embeddings(
    config: Config, bert: Bert, root: str, *, width: int | None = None, positions: bool = True, types: int | None = 2
) -> list[Piece]:
    """The tables of words, positions and token types; `types` is the class default, None where there is no table."""
    width = width or bert.hidden
    name = f"{root}.embeddings"
    pieces: list[Piece] = [(f"{name}.word_embeddings.weight", (bert.frame.vocab_size, width), "embedding")]
    if positions and bert.frame.max_positions:
        pieces.append((f"{name}.position_embeddings.weight", (bert.frame.max_positions, width), "position"))
    if types is not None:
        pieces.append(
            (f"{name}.token_type_embeddings.weight", (config.integer("type_vocab_size", types), width), "position")
        )
    return pieces


def embedding_norm(bert: Bert, root: str, width: int | None = None) -> list[Piece]:
    """The norm over the sum of the tables."""
    return norm(f"{root}.embeddings.LayerNorm", width or bert.hidden, bias=True)


def attention_pieces(name: str, hidden: int, norm_name: str, bias: bool = True) -> list[Piece]:
    """Q, K, V, the output and the norm of one attention; `bias` is that of Q, K and V."""
    return [
        *(
            piece
            for part in ("query", "key", "value")
            for piece in linear(f"{name}.self.{part}", hidden, hidden, "attention", bias)
        ),
        *linear(f"{name}.output.dense", hidden, hidden, "attention", bias=True),
        *norm(f"{name}.{norm_name}", hidden, bias=True),
    ]


def block(
    config: Config,
    bert: Bert,
    *,
    attention_norm: str = "output.LayerNorm",
    mlp_norm: str = "output.LayerNorm",
    bias: bool = True,
    more: Sequence[Piece] = (),
) -> Block:
    """One layer; the norms are named within it, and `more` follows its usual tensors."""
    hidden = bert.hidden
    return Block(
        attention=full_attention(config, bert.heads, bert.frame.num_layers),
        mlp=Mlp(kind="dense", intermediate_size=bert.intermediate),
        pieces=[
            *attention_pieces("attention", hidden, attention_norm, bias),
            *(attention_pieces("crossattention", hidden, attention_norm, bias) if bert.crosses else ()),
            *linear("intermediate.dense", bert.intermediate, hidden, "mlp", bias=True),
            *linear("output.dense", hidden, bert.intermediate, "mlp", bias=True),
            *norm(mlp_norm, hidden, bias=True),
            *more,
        ],
    )


def decoder(bert: Bert, name: str, width: int | None = None) -> list[Piece]:
    """The bias over the vocabulary and, when the head is not tied, the matrix with a second bias."""
    vocab = bert.frame.vocab_size
    shared: Piece = (f"{name}.bias", (vocab,), "head")
    if bert.frame.tied_head:
        return [shared]
    return [shared, *linear(f"{name}.decoder", vocab, width or bert.hidden, "head", bias=True)]


def prediction_head(bert: Bert, width: int | None = None) -> list[Piece]:
    """BERT's head: a transform with a norm, then the vocabulary."""
    width = width or bert.hidden
    name = "cls.predictions"
    return [
        *linear(f"{name}.transform.dense", width, bert.hidden, "other", bias=True),
        *norm(f"{name}.transform.LayerNorm", width, bias=True),
        *decoder(bert, name, width),
    ]


def roberta_head(bert: Bert) -> list[Piece]:
    """RoBERTa's head: the same parts under other names."""
    return [
        *linear("lm_head.dense", bert.hidden, bert.hidden, "other", bias=True),
        *norm("lm_head.layer_norm", bert.hidden, bias=True),
        *decoder(bert, "lm_head"),
    ]


def assemble_bert(
    config: Config,
    bert: Bert,
    layer: Block,
    root: str,
    *,
    before: Sequence[Piece],
    after: Sequence[Piece],
) -> Architecture:
    """Equal layers between the tables and the head."""
    blocks = [layer] * bert.frame.num_layers
    return assemble(config, bert.frame, blocks, before=before, after=after, head=[], blocks_at=f"{root}.encoder.layer")


def build_roberta(config: Config, root: str, *, vocab_size: int, types: int = 2) -> Architecture:
    """RoBERTa and the models that differ from it in the name of their root."""
    bert = read_bert(config, vocab_size=vocab_size)
    before = [*embeddings(config, bert, root, types=types), *embedding_norm(bert, root)]
    return assemble_bert(config, bert, block(config, bert), root, before=before, after=roberta_head(bert))


def build_shared_roberta(config: Config) -> Architecture:
    """RoBERTa with the head built first: a shared word table then bears the name of the head's matrix."""
    bert = read_bert(config, vocab_size=30522)
    tables = embeddings(config, bert, "roberta")
    if bert.frame.tied_head:
        tables[0] = ("lm_head.decoder.weight", tables[0][1], "embedding")
    before = [*tables, *embedding_norm(bert, "roberta")]
    return assemble_bert(config, bert, block(config, bert), "roberta", before=before, after=roberta_head(bert))
