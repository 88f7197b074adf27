"""IQuest-Coder: Llama's class; clipping and windows, which its own code knows, are not built by transformers."""

from __future__ import annotations

from capienza.architecture.frame import read_frame
from capienza.architecture.heads import full_attention, read_heads
from capienza.architecture.model import Architecture
from capienza.architecture.plain import assemble_plain
from capienza.architecture.reading import Config
from capienza.errors import phrase


def build(config: Config) -> Architecture:
    """All layers alike, with full attention."""
    frame = read_frame(
        config, hidden_size=5120, num_hidden_layers=80, vocab_size=76800, max_position_embeddings=131_072
    )
    heads = read_heads(config, frame.hidden_size, num_attention_heads=40, num_key_value_heads=8, head_dim=128)
    if config.flag("use_sliding_window", default=False):
        direction = phrase("counted in full, the cache would come out too large")
        config.not_understood("use_sliding_window", True, "false", direction)
    bias = config.flag("attention_bias", default=False)
    return assemble_plain(
        config,
        frame,
        heads,
        [full_attention(config, heads, frame.num_layers)] * frame.num_layers,
        intermediate_size=27648,
        bias=bias,
        output_bias=bias,
        mlp_bias=config.flag("mlp_bias", default=False),
    )
