"""BigBird with a language-model head: BERT with a pooler; as a decoder it attends to every token."""

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
    """All layers alike; the blocks of sparse attention change no tensor, and K and V of every token are kept."""
    bert = read_bert(config, vocab_size=50358, max_position_embeddings=4096)
    before = [*embeddings(config, bert, "bert"), *embedding_norm(bert, "bert")]
    after = [*linear("bert.pooler", bert.hidden, bert.hidden, "other", bias=True), *prediction_head(bert)]
    layer = block(config, bert, bias=config.flag("use_bias", True))
    return assemble_bert(config, bert, layer, "bert", before=before, after=after)
