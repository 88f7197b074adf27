"""A.X K1: DeepSeek's latent attention and experts, with a norm after the experts."""

from __future__ import annotations

from capienza.architecture.assembly import assemble
from capienza.architecture.forward_parts import (
    dense_forward,
    late_experts,
    layer_block,
    note_prediction_layers,
    read_deepseek_experts,
    sparse_flags,
)
from capienza.architecture.frame import read_frame
from capienza.architecture.latent import read_latent
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import norm
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """Experts as `mlp_layer_types` says, else after the first dense layers."""
    config = config.with_aliases(n_routed_experts="num_local_experts")
    frame = read_frame(
        config, hidden_size=7168, num_hidden_layers=61, vocab_size=163_840, max_position_embeddings=32768
    )
    hidden = frame.hidden_size
    latent = read_latent(config, num_attention_heads=64, compressed=True)
    mixing = latent.pieces(hidden, config.flag("attention_bias", default=False))
    dense = dense_forward(hidden, config.dimension("intermediate_size", 18432))
    sparse = read_deepseek_experts(
        config,
        hidden,
        moe_intermediate_size=2048,
        n_routed_experts=192,
        n_shared_experts=1,
        num_experts_per_tok=8,
    )
    note_prediction_layers(config)
    blocks = {
        False: layer_block(hidden, dense, mixing, attention=latent.attention),
        True: layer_block(
            hidden,
            sparse,
            [*mixing, *norm("mlp.post_mlp_layernorm", hidden)],
            attention=latent.attention,
        ),
    }
    flags = sparse_flags(config, frame.num_layers, late_experts(config, first=1, periodic=True))
    return assemble(config, frame, [blocks[flag] for flag in flags])
