"""GLM 4 (0414), dense: gate and up in one projection, four norms."""

from __future__ import annotations

from capienza.architecture.frame import read_frame
from capienza.architecture.glm_blocks import assemble_glm
from capienza.architecture.heads import read_heads
from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike, with full attention; biases on Q, K and V only."""
    frame = read_frame(
        config, hidden_size=4096, num_hidden_layers=40, vocab_size=151_552, max_position_embeddings=131_072
    )
    heads = read_heads(config, frame.hidden_size, num_attention_heads=32, num_key_value_heads=2, head_dim=128)
    bias = config.flag("attention_bias", default=True)
    return assemble_glm(config, frame, heads, intermediate_size=13696, bias=bias)
