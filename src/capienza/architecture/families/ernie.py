"""ERNIE with a language-model head: BERT, with a table of tasks when it is used."""

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
    before = [*embeddings(config, bert, "ernie"), *embedding_norm(bert, "ernie")]
    if config.flag("use_task_id", False):
        tasks = config.integer("task_type_vocab_size", 3)
        before.append(("ernie.embeddings.task_type_embeddings.weight", (tasks, bert.hidden), "position"))
    return assemble_bert(config, bert, block(config, bert), "ernie", before=before, after=prediction_head(bert))
