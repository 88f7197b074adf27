"""Qwen3.5, text side: three gated delta layers for each full attention layer, and a gated MLP."""

from __future__ import annotations

from capienza.architecture.assembly import assemble
from capienza.architecture.frame import read_frame
from capienza.architecture.model import Architecture
from capienza.architecture.qwen_hybrid import dense_part, hybrid_blocks
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers have the same MLP."""
    frame = read_frame(config, hidden_size=4096, num_hidden_layers=32, vocab_size=248320, max_position_embeddings=32768)
    parts = [dense_part(config, frame.hidden_size, intermediate_size=12288)] * frame.num_layers
    return assemble(config, frame, hybrid_blocks(config, frame, parts, num_key_value_heads=4, fused=False))
