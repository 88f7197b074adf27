"""VaultGemma: windows in every other layer, one norm before attention and one before the MLP."""

from __future__ import annotations

from capienza.architecture.frame import read_frame
from capienza.architecture.heads import attentions, layer_types, read_heads
from capienza.architecture.model import Architecture
from capienza.architecture.plain import assemble_plain
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """Sliding and full layers in turn, unless `layer_types` says otherwise."""
    frame = read_frame(
        config,
        hidden_size=2304,
        num_hidden_layers=26,
        vocab_size=256_000,
        max_position_embeddings=8192,
        tied=True,
    )
    heads = read_heads(config, frame.hidden_size, num_attention_heads=8, num_key_value_heads=4, head_dim=256)
    types = layer_types(config, frame.num_layers, lambda index: "full_attention" if index % 2 else "sliding_attention")
    layers = attentions(config, heads, types, config.optional("sliding_window", 4096))
    bias = config.flag("attention_bias", default=False)
    return assemble_plain(
        config,
        frame,
        heads,
        layers,
        intermediate_size=9216,
        bias=bias,
        output_bias=bias,
        norms=("input_layernorm", "pre_feedforward_layernorm"),
    )
