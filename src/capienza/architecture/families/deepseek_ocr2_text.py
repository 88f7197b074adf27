"""The text side of DeepSeek-OCR 2: plain attention, experts in the layers that the file names."""

from __future__ import annotations

from capienza.architecture.forward_parts import sparse_flags
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import full_attention
from capienza.architecture.model import Architecture
from capienza.architecture.ocr_mixture import assemble_ocr_mixture, read_ocr_heads
from capienza.architecture.reading import Config
from capienza.errors import phrase


def build(config: Config) -> Architecture:
    """The class has no rule for the layers with experts."""
    config = config.with_aliases(n_routed_experts="num_experts")
    frame = read_frame(config, hidden_size=4096, num_hidden_layers=32, vocab_size=102_400, max_position_embeddings=2048)
    heads = read_ocr_heads(config, frame.hidden_size, num_attention_heads=32, num_key_value_heads=None)
    if config.raw("mlp_layer_types") is None:
        config.missing("mlp_layer_types", phrase("dense or sparse for each layer"))
    return assemble_ocr_mixture(
        config,
        frame,
        heads,
        full_attention(config, heads, frame.num_layers),
        sparse_flags(config, frame.num_layers, lambda _: False),
        intermediate_size=11008,
        moe_intermediate_size=1407,
        num_experts_per_tok=None,
    )
