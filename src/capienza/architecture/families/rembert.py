"""RemBERT: narrow tables, and a wider head that is never tied to them."""

from __future__ import annotations

from capienza.architecture.bert_parts import assemble_bert, block, embedding_norm, embeddings, read_bert
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import linear, norm
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike, with full attention."""
    bert = read_bert(
        config,
        vocab_size=250_300,
        hidden_size=1152,
        num_hidden_layers=32,
        num_attention_heads=18,
        intermediate_size=4608,
        ties=False,
    )
    width = config.integer("input_embedding_size", 256)
    output = config.integer("output_embedding_size", 1664)
    before = [
        *embeddings(config, bert, "rembert", width=width),
        *embedding_norm(bert, "rembert", width),
        *linear("rembert.encoder.embedding_hidden_mapping_in", bert.hidden, width, "other", bias=True),
    ]
    after = [
        *linear("cls.predictions.dense", output, bert.hidden, "other", bias=True),
        *norm("cls.predictions.LayerNorm", output, bias=True),
        *linear("cls.predictions.decoder", bert.frame.vocab_size, output, "head", bias=True),
    ]
    return assemble_bert(config, bert, block(config, bert), "rembert", before=before, after=after)
