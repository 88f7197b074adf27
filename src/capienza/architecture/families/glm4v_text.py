"""The text side of GLM-4.1V: GLM 4's block, whose heads always share out the hidden size."""

from __future__ import annotations

from capienza.architecture.frame import read_frame
from capienza.architecture.glm_blocks import assemble_glm
from capienza.architecture.heads import read_heads
from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """Biases on Q, K and V, whatever the file says."""
    frame = read_frame(
        config, hidden_size=4096, num_hidden_layers=40, vocab_size=151_552, max_position_embeddings=32768
    )
    heads = read_heads(config, frame.hidden_size, num_attention_heads=32, num_key_value_heads=2, shared_out=True)
    return assemble_glm(config, frame, heads, intermediate_size=13696, bias=True)
