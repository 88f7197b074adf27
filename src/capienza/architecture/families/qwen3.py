"""Qwen 3, dense: a norm over each head of Q and K."""

from __future__ import annotations

from capienza.architecture.frame import read_frame
from capienza.architecture.heads import late_window, read_heads
from capienza.architecture.model import Architecture
from capienza.architecture.plain import assemble_plain
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """The last layers slide, from `max_window_layers` on, when `use_sliding_window` is set."""
    frame = read_frame(
        config, hidden_size=4096, num_hidden_layers=32, vocab_size=151_936, max_position_embeddings=32768
    )
    heads = read_heads(config, frame.hidden_size, num_attention_heads=32, num_key_value_heads=32, head_dim=128)
    attentions = late_window(config, heads, frame.num_layers, max_window_layers=28)
    bias = config.flag("attention_bias", False)
    return assemble_plain(
        config, frame, heads, attentions, intermediate_size=22016, bias=bias, output_bias=bias, head_norm=True
    )
