"""Youtu-LLM: DeepSeek's latent attention and a dense gated MLP."""

from __future__ import annotations

from capienza.architecture.assembly import assemble
from capienza.architecture.forward_parts import dense_forward, layer_block
from capienza.architecture.frame import read_frame
from capienza.architecture.latent import read_latent
from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike."""
    frame = read_frame(
        config,
        hidden_size=2048,
        num_hidden_layers=32,
        vocab_size=128_256,
        max_position_embeddings=131_072,
        tied=True,
    )
    hidden = frame.hidden_size
    latent = read_latent(config, num_attention_heads=16)
    mixing = latent.pieces(hidden, config.flag("attention_bias", default=False))
    dense = dense_forward(hidden, config.dimension("intermediate_size", 6144))
    block = layer_block(hidden, dense, mixing, attention=latent.attention)
    return assemble(config, frame, [block] * frame.num_layers)
