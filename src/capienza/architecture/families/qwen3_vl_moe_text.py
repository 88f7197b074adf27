"""The text side of the Qwen3-VL mixtures: Qwen 3's without windows."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import full_attention, read_heads
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import (
    attention_pieces,
    fused_experts,
    gated_mlp,
    layer_norms,
    linear,
    read_experts,
    sparse_layers,
)
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """Experts in the layers that `sparse_layers` gives; a plain MLP in the others."""
    config = config.with_aliases(num_experts="num_local_experts")
    frame = read_frame(
        config, hidden_size=2048, num_hidden_layers=24, vocab_size=151_936, max_position_embeddings=128000
    )
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=16, num_key_value_heads=16)

    attention = full_attention(config, heads, frame.num_layers)
    experts, chosen = read_experts(config, "num_experts", 60, per_token=4, minimum=0)
    dense, sparse = config.dimension("intermediate_size", 5632), config.dimension("moe_intermediate_size", 1408)
    bias = config.flag("attention_bias", False)
    common = [
        *attention_pieces(heads, hidden, bias=bias, output_bias=bias, head_norm=True),
        *layer_norms(hidden),
    ]
    mixture = [*fused_experts(experts, hidden, sparse), *linear("mlp.gate", experts, hidden, "router")]
    blocks = {
        True: Block(
            attention=attention,
            mlp=Mlp(kind="experts", intermediate_size=sparse, num_experts=experts, num_experts_per_token=chosen),
            pieces=[*common, *mixture],
        ),
        False: Block(
            attention=attention,
            mlp=Mlp(kind="dense", intermediate_size=dense),
            pieces=[*common, *gated_mlp(hidden, dense)],
        ),
    }
    return assemble(config, frame, [blocks[sparse] for sparse in sparse_layers(config, frame.num_layers, experts)])
