"""XLM-RoBERTa XL and XXL: norms before attention and MLP, none over the tables."""

from __future__ import annotations

from capienza.architecture.bert_parts import assemble_bert, block, embeddings, read_bert, roberta_head
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import norm
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike, with full attention, and a norm after the last."""
    bert = read_bert(
        config,
        vocab_size=250_880,
        hidden_size=2560,
        num_hidden_layers=36,
        num_attention_heads=32,
        intermediate_size=10240,
        max_position_embeddings=514,
    )
    layer = block(config, bert, attention_norm="self_attn_layer_norm", mlp_norm="LayerNorm")
    after = [*norm("roberta.encoder.LayerNorm", bert.hidden, bias=True), *roberta_head(bert)]
    before = embeddings(config, bert, "roberta", types=1)
    return assemble_bert(config, bert, layer, "roberta", before=before, after=after)
