"""ELECTRA's generator: narrow tables, projected to the hidden size and back."""

from __future__ import annotations

from capienza.architecture.bert_parts import assemble_bert, block, embedding_norm, embeddings, read_bert
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import Piece, linear, norm
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike, with full attention; one bias over the vocabulary, tied head or not."""
    bert = read_bert(config, vocab_size=30522, hidden_size=256, num_attention_heads=4, intermediate_size=1024)
    width = config.integer("embedding_size", 128)
    before = [*embeddings(config, bert, "electra", width=width), *embedding_norm(bert, "electra", width)]
    if width != bert.hidden:
        before += linear("electra.embeddings_project", bert.hidden, width, "other", bias=True)
    head: list[Piece] = linear("generator_lm_head", bert.frame.vocab_size, width, "head", bias=True)
    after = [
        *norm("generator_predictions.LayerNorm", width, bias=True),
        *linear("generator_predictions.dense", width, bert.hidden, "other", bias=True),
        *(head[1:] if bert.frame.tied_head else head),
    ]
    return assemble_bert(config, bert, block(config, bert), "electra", before=before, after=after)
