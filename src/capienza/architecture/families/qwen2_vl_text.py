"""The text side of Qwen2-VL: Qwen 2 with other class defaults."""

from __future__ import annotations

from capienza.architecture.frame import read_frame
from capienza.architecture.heads import late_window, read_heads
from capienza.architecture.model import Architecture
from capienza.architecture.plain import assemble_plain
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """The last layers slide, from `max_window_layers` on, when `use_sliding_window` is set."""
    frame = read_frame(
        config, hidden_size=8192, num_hidden_layers=80, vocab_size=152_064, max_position_embeddings=32768
    )
    heads = read_heads(config, frame.hidden_size, num_attention_heads=64, num_key_value_heads=8, shared_out=True)
    attentions = late_window(config, heads, frame.num_layers, max_window_layers=80)
    return assemble_plain(config, frame, heads, attentions, intermediate_size=29568, bias=True)
