"""The text side of GLM-4.5V: the mixture of GLM 4.5 without norms over the heads."""

from __future__ import annotations

from capienza.architecture.frame import read_frame
from capienza.architecture.heads import full_attention, read_heads
from capienza.architecture.mixture import assemble_mixture
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import attention_pieces
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """Layers from `first_k_dense_replace` on hold experts."""
    config = config.with_aliases(n_routed_experts="num_local_experts", num_nextn_predict_layers="num_mtp_layers")
    frame = read_frame(
        config, hidden_size=4096, num_hidden_layers=46, vocab_size=151_424, max_position_embeddings=65536
    )
    heads = read_heads(config, frame.hidden_size, num_attention_heads=96, num_key_value_heads=8)
    return assemble_mixture(
        config,
        frame,
        full_attention(config, heads, frame.num_layers),
        attention_pieces(heads, frame.hidden_size, bias=config.flag("attention_bias", default=True)),
        intermediate_size=10944,
        moe_intermediate_size=1408,
        n_routed_experts=128,
        n_shared_experts=1,
        num_experts_per_tok=8,
        first_k_dense_replace=1,
        correction=True,
    )
