"""Sarvam 30B: the class of GLM 4.5's mixture under older key names."""

from __future__ import annotations

from capienza.architecture.assembly import assemble
from capienza.architecture.forward_parts import (
    dense_forward,
    late_experts,
    layer_block,
    note_prediction_layers,
    read_deepseek_experts,
)
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import full_attention, read_heads
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import attention_pieces
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """Layers from `first_k_dense_replace` on hold experts."""
    config = config.with_aliases(
        n_routed_experts=("num_local_experts", "num_experts"),
        n_shared_experts="num_shared_experts",
        attention_bias="use_qkv_bias",
        num_nextn_predict_layers="num_mtp_layers",
    )
    frame = read_frame(
        config, hidden_size=4096, num_hidden_layers=19, vocab_size=262_144, max_position_embeddings=131_072
    )
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=64, num_key_value_heads=4, head_dim=64)
    attention = full_attention(config, heads, frame.num_layers)
    mixing = attention_pieces(
        heads,
        hidden,
        bias=config.flag("attention_bias", default=False),
        head_norm=config.flag("use_qk_norm", default=True),
    )
    dense = dense_forward(hidden, config.dimension("intermediate_size", 8192))
    sparse = read_deepseek_experts(
        config,
        hidden,
        moe_intermediate_size=1024,
        n_routed_experts=128,
        n_shared_experts=1,
        num_experts_per_tok=6,
    )
    note_prediction_layers(config)
    is_sparse = late_experts(config, first=1)
    return assemble(
        config,
        frame,
        [
            layer_block(hidden, sparse if is_sparse(index) else dense, mixing, attention=attention)
            for index in range(frame.num_layers)
        ],
    )
