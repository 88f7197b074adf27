"""BERT with a language-model head."""

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
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike, with full attention."""
    bert = read_bert(config, vocab_size=30522)
    before = [*embeddings(config, bert, "bert"), *embedding_norm(bert, "bert")]
    return assemble_bert(config, bert, block(config, bert), "bert", before=before, after=prediction_head(bert))
