"""The text side of Qwen3-VL: Qwen 3 without windows."""

from __future__ import annotations

from capienza.architecture.frame import read_frame
from capienza.architecture.heads import full_attention, read_heads
from capienza.architecture.model import Architecture
from capienza.architecture.plain import assemble_plain
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike: full attention with a norm over each head of Q and K."""
    frame = read_frame(
        config, hidden_size=4096, num_hidden_layers=32, vocab_size=151_936, max_position_embeddings=128_000
    )
    heads = read_heads(config, frame.hidden_size, num_attention_heads=32, num_key_value_heads=32, head_dim=128)
    attentions = [full_attention(config, heads, frame.num_layers)] * frame.num_layers
    bias = config.flag("attention_bias", False)
    return assemble_plain(
        config, frame, heads, attentions, intermediate_size=22016, bias=bias, output_bias=bias, head_norm=True
    )
