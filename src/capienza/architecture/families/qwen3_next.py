"""Qwen3-Next: three gated delta layers for each full attention layer, and experts with one shared expert."""

from __future__ import annotations

from capienza.architecture.assembly import assemble
from capienza.architecture.frame import read_frame
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import sparse_layers
from capienza.architecture.qwen_hybrid import dense_part, hybrid_blocks, mixture_part
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """Every layer is sparse but those of `mlp_only_layers` or between two `decoder_sparse_step`."""
    frame = read_frame(config, hidden_size=2048, num_hidden_layers=48, vocab_size=151936, max_position_embeddings=32768)
    hidden = frame.hidden_size
    experts = config.integer("num_experts", 512, minimum=0)
    sparse = sparse_layers(config, frame.num_layers, experts)
    mixture = mixture_part(config, hidden, num_experts=512, per_token=10) if any(sparse) else None
    dense = None if all(sparse) else dense_part(config, hidden, intermediate_size=5632)
    parts = [mixture if is_sparse else dense for is_sparse in sparse]
    return assemble(config, frame, hybrid_blocks(config, frame, parts, num_key_value_heads=2, fused=True))
