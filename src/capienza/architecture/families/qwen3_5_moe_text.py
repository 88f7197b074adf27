"""Qwen3.5 with experts, text side: three gated delta layers for each full attention layer, one shared expert."""

from __future__ import annotations

from capienza.architecture.assembly import assemble
from capienza.architecture.frame import read_frame
from capienza.architecture.model import Architecture
from capienza.architecture.qwen_hybrid import hybrid_blocks, mixture_part
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers have the same experts."""
    frame = read_frame(config, hidden_size=2048, num_hidden_layers=40, vocab_size=248320, max_position_embeddings=32768)
    parts = [mixture_part(config, frame.hidden_size, num_experts=256, per_token=8)] * frame.num_layers
    return assemble(config, frame, hybrid_blocks(config, frame, parts, num_key_value_heads=2, fused=False))
