"""The text side of Qwen2.5-Omni's thinker: Qwen 2 with other class defaults."""

from __future__ import annotations

from capienza.architecture.frame import read_frame
from capienza.architecture.heads import late_window, read_heads
from capienza.architecture.model import Architecture
from capienza.architecture.plain import assemble_plain
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """The last layers slide, from `max_window_layers` on, when `use_sliding_window` is set."""
    frame = read_frame(
        config,
        hidden_size=3584,
        num_hidden_layers=28,
        vocab_size=152_064,
        max_position_embeddings=32768,
        tied=True,
    )
    heads = read_heads(config, frame.hidden_size, num_attention_heads=28, num_key_value_heads=4)
    attentions = late_window(config, heads, frame.num_layers, max_window_layers=28)
    return assemble_plain(config, frame, heads, attentions, intermediate_size=18944, bias=True)
