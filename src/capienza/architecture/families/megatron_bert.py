"""Megatron-BERT with a language-model head: norms before attention and MLP, none over the tables."""

from __future__ import annotations

from capienza.architecture.bert_parts import assemble_bert, block, embeddings, prediction_head, read_bert
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import norm
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike, with full attention, and a norm after the last."""
    bert = read_bert(
        config,
        vocab_size=29056,
        hidden_size=1024,
        num_hidden_layers=24,
        num_attention_heads=16,
        intermediate_size=4096,
    )
    layer = block(config, bert, attention_norm="ln", mlp_norm="ln")
    after = [*norm("bert.encoder.ln", bert.hidden, bias=True), *prediction_head(bert)]
    return assemble_bert(config, bert, layer, "bert", before=embeddings(config, bert, "bert"), after=after)
