"""RoBERTa with a language-model head."""

from __future__ import annotations

from capienza.architecture.bert_parts import build_roberta
from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike, with full attention."""
    return build_roberta(config, "roberta", vocab_size=50265)
