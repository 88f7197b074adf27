"""RoCBert with a language-model head: tables of sounds and shapes beside that of words."""

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
    """All layers alike, with full attention; both tables exist even when they are not used."""
    bert = read_bert(config, vocab_size=30522)
    sounds = config.integer("pronunciation_embed_dim", 768)
    shapes = config.integer("shape_embed_dim", 512)
    name = "roc_bert.embeddings"
    before = [
        *embeddings(config, bert, "roc_bert"),
        (f"{name}.pronunciation_embed.weight", (config.integer("pronunciation_vocab_size", 910), sounds), "position"),
        (f"{name}.shape_embed.weight", (config.integer("shape_vocab_size", 24858), shapes), "position"),
        *embedding_norm(bert, "roc_bert"),
    ]
    if config.flag("concat_input", True):
        width = bert.hidden
        width += sounds if config.flag("enable_pronunciation", True) else 0
        width += shapes if config.flag("enable_shape", True) else 0
        before += linear(f"{name}.map_inputs_layer", bert.hidden, width, "other", bias=True)
    return assemble_bert(config, bert, block(config, bert), "roc_bert", before=before, after=prediction_head(bert))
