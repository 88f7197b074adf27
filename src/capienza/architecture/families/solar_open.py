"""Solar Open: grouped heads, and experts beside shared ones in every layer."""

from __future__ import annotations

from capienza.architecture.assembly import assemble
from capienza.architecture.forward_parts import layer_block, read_deepseek_experts
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import full_attention, read_heads
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import attention_pieces
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike."""
    config = config.with_aliases(n_routed_experts="num_local_experts")
    frame = read_frame(
        config, hidden_size=4096, num_hidden_layers=48, vocab_size=196_608, max_position_embeddings=131_072
    )
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=64, num_key_value_heads=8, head_dim=128)
    first = config.optional("first_k_dense_replace", minimum=0)
    if first:  # transformers knows no dense layers here
        config.contradiction("first_k_dense_replace", first, "0")
    sparse = read_deepseek_experts(
        config,
        hidden,
        moe_intermediate_size=1280,
        n_routed_experts=128,
        n_shared_experts=1,
        num_experts_per_tok=8,
    )
    mixing = attention_pieces(heads, hidden, bias=config.flag("attention_bias", default=False))
    block = layer_block(hidden, sparse, mixing, attention=full_attention(config, heads, frame.num_layers))
    return assemble(config, frame, [block] * frame.num_layers)
