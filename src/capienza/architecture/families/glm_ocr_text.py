"""The text side of GLM-OCR: GLM 4's block without biases."""

from __future__ import annotations

from capienza.architecture.forward_parts import note_prediction_layers
from capienza.architecture.frame import read_frame
from capienza.architecture.glm_blocks import assemble_glm
from capienza.architecture.heads import read_heads
from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike; the published file states a prediction layer, which is left out."""
    frame = read_frame(
        config, hidden_size=1024, num_hidden_layers=16, vocab_size=59392, max_position_embeddings=131_072
    )
    heads = read_heads(config, frame.hidden_size, num_attention_heads=16, num_key_value_heads=8)
    note_prediction_layers(config)
    return assemble_glm(config, frame, heads, intermediate_size=4096, bias=False)
