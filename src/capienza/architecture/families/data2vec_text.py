"""data2vec text, RoBERTa under another root, with a language-model head."""

from __future__ import annotations

from capienza.architecture.bert_parts import build_roberta
from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike, with full attention."""
    return build_roberta(config, "data2vec_text", vocab_size=30522)
