"""SmolLM 3: Llama's block; a window, where one is used, in the layers without rotary positions."""

from __future__ import annotations

from capienza.architecture.frame import read_frame
from capienza.architecture.heads import attentions, layer_types, read_heads, rotary_layers
from capienza.architecture.model import Architecture
from capienza.architecture.plain import assemble_plain
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """Every `no_rope_layer_interval`-th layer has no rotary positions."""
    frame = read_frame(
        config,
        hidden_size=2048,
        num_hidden_layers=36,
        vocab_size=128_256,
        max_position_embeddings=32768,
        tied=True,
    )
    heads = read_heads(config, frame.hidden_size, num_attention_heads=16, num_key_value_heads=4)
    window = config.optional("sliding_window") if config.flag("use_sliding_window", default=False) else None
    rotary = rotary_layers(config, frame.num_layers)
    types = layer_types(
        config,
        frame.num_layers,
        lambda index: "full_attention" if rotary[index] or window is None else "sliding_attention",
    )
    bias = config.flag("attention_bias", default=False)
    return assemble_plain(
        config,
        frame,
        heads,
        attentions(config, heads, types, window),
        intermediate_size=11008,
        bias=bias,
        output_bias=bias,
        mlp_bias=config.flag("mlp_bias", default=False),
    )
