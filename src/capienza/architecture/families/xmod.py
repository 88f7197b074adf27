"""X-MOD with a language-model head: RoBERTa with an adapter of each language in every layer."""

from __future__ import annotations

from capienza.architecture.bert_parts import (
    Bert,
    assemble_bert,
    block,
    embedding_norm,
    embeddings,
    read_bert,
    roberta_head,
)
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import Piece, linear, norm
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike, with full attention; every language's adapters are held, one runs."""
    bert = read_bert(config, vocab_size=30522)
    layer = block(config, bert, more=_adapters(config, bert))
    before = [*embeddings(config, bert, "roberta"), *embedding_norm(bert, "roberta")]
    last = norm("roberta.encoder.LayerNorm", bert.hidden, bias=True) if config.flag("pre_norm", False) else []
    return assemble_bert(config, bert, layer, "roberta", before=before, after=[*last, *roberta_head(bert)])


def _adapters(config: Config, bert: Bert) -> list[Piece]:
    """Two projections through a bottleneck for each language, and the norm they may share."""
    factor = config.integer("adapter_reduction_factor", 2)
    width = bert.hidden // factor
    if not width:
        config.broken_rule("adapter_reduction_factor", factor, f"adapter_reduction_factor <= {bert.hidden}")
    languages = config.texts("languages")
    own = config.flag("adapter_layer_norm", False)
    pieces = norm("output.adapter_layer_norm", bert.hidden, bias=True) if own else []
    for index, language in enumerate(dict.fromkeys(("en_XX",) if languages is None else languages)):
        if not language or "." in language:  # it becomes a part of the parameters' names
            config.broken_rule(f"languages[{index}]", language, "languages[...] != '' and no '.'")
        name = f"output.adapter_modules.{language}"
        pieces += linear(f"{name}.dense1", width, bert.hidden, "mlp", bias=True)
        pieces += linear(f"{name}.dense2", bert.hidden, width, "mlp", bias=True)
    return pieces
