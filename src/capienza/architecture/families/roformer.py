"""RoFormer with a language-model head: rotary positions from a stored table, tables that may be narrow."""

from __future__ import annotations

from capienza.architecture.bert_parts import (
    assemble_bert,
    block,
    embedding_norm,
    embeddings,
    prediction_head,
    read_bert,
)
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import linear
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike, with full attention."""
    bert = read_bert(config, vocab_size=50000, max_position_embeddings=1536)
    width = config.optional("embedding_size") or bert.hidden
    before = [
        *embeddings(config, bert, "roformer", width=width, positions=False),
        *embedding_norm(bert, "roformer", width),
    ]
    if width != bert.hidden:
        before += linear("roformer.embeddings_project", bert.hidden, width, "other", bias=True)
    positions = bert.frame.max_positions or 0
    before.append(("roformer.encoder.embed_positions.weight", (positions, bert.heads.head_dim), "position"))
    after = prediction_head(bert, width)
    return assemble_bert(config, bert, block(config, bert), "roformer", before=before, after=after)
