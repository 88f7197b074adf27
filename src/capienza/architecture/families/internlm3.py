"""InternLM 3: Llama's class under InternLM's names for the two biases."""

from __future__ import annotations

from capienza.architecture.frame import read_frame
from capienza.architecture.heads import full_attention, read_heads
from capienza.architecture.model import Architecture
from capienza.architecture.plain import assemble_plain
from capienza.architecture.reading import Config, shown


def build(config: Config) -> Architecture:
    """All layers alike, with full attention; Llama's class has one bias for Q, K, V and the output."""
    config = config.with_aliases(attention_bias="qkv_bias", mlp_bias="bias")
    frame = read_frame(
        config, hidden_size=4096, num_hidden_layers=48, vocab_size=128_512, max_position_embeddings=32768
    )
    heads = read_heads(config, frame.hidden_size, num_attention_heads=32, num_key_value_heads=2, head_dim=128)
    bias, mlp_bias = config.flag("attention_bias", default=False), config.flag("mlp_bias", default=False)
    if bias != mlp_bias:
        config.broken_rule("qkv_bias", bias, f"qkv_bias == bias == {shown(mlp_bias)}")
    return assemble_plain(
        config,
        frame,
        heads,
        [full_attention(config, heads, frame.num_layers)] * frame.num_layers,
        intermediate_size=10240,
        bias=bias,
        output_bias=bias,
        mlp_bias=mlp_bias,
    )
