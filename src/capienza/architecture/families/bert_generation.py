"""BERT for generation: no token types, and a head without a transform."""

from __future__ import annotations

from capienza.architecture.bert_parts import assemble_bert, block, decoder, embedding_norm, embeddings, read_bert
from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike, with full attention."""
    bert = read_bert(
        config,
        vocab_size=50358,
        hidden_size=1024,
        num_hidden_layers=24,
        num_attention_heads=16,
        intermediate_size=4096,
    )
    before = [*embeddings(config, bert, "bert", types=None), *embedding_norm(bert, "bert")]
    return assemble_bert(config, bert, block(config, bert), "bert", before=before, after=decoder(bert, "lm_head"))
