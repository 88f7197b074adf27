"""RoBERTa with its norms before attention and MLP."""

from __future__ import annotations

from capienza.architecture.bert_parts import assemble_bert, block, embedding_norm, embeddings, read_bert, roberta_head
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import norm
from capienza.architecture.reading import Config

ROOT = "roberta_prelayernorm"


def build(config: Config) -> Architecture:
    """All layers alike, with full attention, and a norm after the last."""
    bert = read_bert(config, vocab_size=50265)
    layer = block(config, bert, attention_norm="LayerNorm", mlp_norm="intermediate.LayerNorm")
    before = [*embeddings(config, bert, ROOT), *embedding_norm(bert, ROOT)]
    after = [*norm(f"{ROOT}.LayerNorm", bert.hidden, bias=True), *roberta_head(bert)]
    return assemble_bert(config, bert, layer, ROOT, before=before, after=after)
