"""GLM 4.7 Flash: DeepSeek's latent attention and experts, one dense layer first."""

from __future__ import annotations

from capienza.architecture.assembly import assemble
from capienza.architecture.forward_parts import (
    dense_forward,
    layer_block,
    note_prediction_layers,
    read_deepseek_experts,
    sparse_flags,
)
from capienza.architecture.frame import read_frame
from capienza.architecture.latent import read_latent
from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """Experts as `mlp_layer_types` says, else in all layers but the first."""
    config = config.with_aliases(
        n_routed_experts="num_local_experts",
        qk_rope_head_dim="head_dim",
        num_nextn_predict_layers="num_mtp_layers",
    )
    frame = read_frame(
        config, hidden_size=2048, num_hidden_layers=47, vocab_size=154_880, max_position_embeddings=202_752
    )
    hidden = frame.hidden_size
    latent = read_latent(config, num_attention_heads=20, query_rank=768, nope=192, value=256)
    mixing = latent.pieces(hidden, config.flag("attention_bias", default=False))
    dense = dense_forward(hidden, config.dimension("intermediate_size", 10240))
    sparse = read_deepseek_experts(
        config,
        hidden,
        moe_intermediate_size=1536,
        n_routed_experts=64,
        n_shared_experts=1,
        num_experts_per_tok=4,
    )
    first = config.optional("first_k_dense_replace", minimum=0)
    if first not in (None, 1) and config.raw("mlp_layer_types") is None:  # transformers would not read it
        config.contradiction("first_k_dense_replace", first, "1")
    note_prediction_layers(config)
    flags = sparse_flags(config, frame.num_layers, lambda index: index >= 1)
    return assemble(
        config,
        frame,
        [layer_block(hidden, sparse if flag else dense, mixing, attention=latent.attention) for flag in flags],
    )
