"""The text side of BLIP: BERT's block that also attends to the image's vectors."""

from __future__ import annotations

from collections.abc import Sequence

from capienza.architecture.assembly import Block
from capienza.architecture.bert_parts import (
    BOTH_WAYS,
    Bert,
    assemble_bert,
    attention_pieces,
    embedding_norm,
    embeddings,
    prediction_head,
)
from capienza.architecture.decoder_notes import note_cross_attention
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import Heads, full_attention, share_out
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import Piece, linear, norm
from capienza.architecture.reading import Config

NORM = "output.LayerNorm"
READ_FROM_IMAGE = ("self.key.weight", "self.value.weight")


def build(config: Config) -> Architecture:
    """All layers alike; only a decoder looks at the image."""
    frame = read_frame(
        config,
        hidden_size=768,
        num_hidden_layers=12,
        vocab_size=30524,
        max_position_embeddings=512,
        tied=True,
    )
    hidden = frame.hidden_size
    count = config.dimension("num_attention_heads", 8)
    bert = Bert(
        frame=frame,
        heads=Heads(count, count, share_out(config, hidden, count)),
        intermediate=config.dimension("intermediate_size", 3072),
        crosses=config.flag("is_decoder", default=True),
    )
    if bert.crosses:
        note_cross_attention(config, bert.heads, frame.num_layers)
    else:
        config.notes.append(BOTH_WAYS())
    layer = Block(
        attention=full_attention(config, bert.heads, frame.num_layers),
        mlp=Mlp(kind="dense", intermediate_size=bert.intermediate),
        pieces=[
            *attention_pieces("attention", hidden, NORM),
            *(_look(hidden, config.integer("encoder_hidden_size", 768)) if bert.crosses else []),
            *linear("intermediate.dense", bert.intermediate, hidden, "mlp", bias=True),
            *linear("output.dense", hidden, bert.intermediate, "mlp", bias=True),
            *norm(NORM, hidden, bias=True),
        ],
    )
    before = [*embeddings(config, bert, "bert", types=None), *embedding_norm(bert, "bert")]
    return assemble_bert(config, bert, layer, "bert", before=before, after=prediction_head(bert))


def _look(hidden: int, seen: int) -> Sequence[Piece]:
    """Attention whose K and V come from vectors of `seen` elements."""
    return [
        (name, (hidden, seen) if name.endswith(READ_FROM_IMAGE) else shape, role)
        for name, shape, role in attention_pieces("crossattention", hidden, NORM)
    ]
