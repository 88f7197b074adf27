"""Flint: heads with norms and learned sinks, experts beside one shared expert, three windowed layers to one full."""

from __future__ import annotations

from capienza.architecture.forward_parts import dense_forward, sparse_forward
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import read_heads
from capienza.architecture.layer_stack import assemble_stack
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import attention_pieces, gated_mlp, layer_norms, read_experts, sinks
from capienza.architecture.reading import Config
from capienza.architecture.window_patterns import ruled_attentions


def build(config: Config) -> Architecture:
    """The first two layers and the last are full; those of `mlp_only_layers` are dense, by default the first two."""
    frame = read_frame(
        config, hidden_size=2048, num_hidden_layers=49, vocab_size=150_144, max_position_embeddings=262_144
    )
    hidden, last = frame.hidden_size, frame.num_layers - 1
    heads = read_heads(config, hidden, num_attention_heads=32, num_key_value_heads=4, head_dim=128)
    bias = config.flag("attention_bias", default=False)
    experts, chosen = read_experts(config, "num_experts", 256, per_token=6, minimum=0)
    shared = config.dimension("shared_expert_intermediate_size", 1024)
    sparse = sparse_forward(
        hidden,
        config.dimension("moe_intermediate_size", 512),
        experts,
        chosen,
        shared=1,
        shared_pieces=gated_mlp(hidden, shared, name="mlp.shared_expert"),
    )
    dense = dense_forward(hidden, config.dimension("intermediate_size", 6144))
    stated = config.integers("mlp_only_layers")
    kept_dense = frozenset((0, 1) if stated is None else stated)
    step = config.integer("decoder_sparse_step", 1)
    holding = [experts > 0 and index not in kept_dense and (index + 1) % step == 0 for index in range(frame.num_layers)]
    return assemble_stack(
        config,
        frame,
        ruled_attentions(
            config, heads, frame.num_layers, window=513, full=lambda index: index in (0, last) or index % 4 == 1
        ),
        [
            *attention_pieces(heads, hidden, bias=bias, output_bias=bias, head_norm=True),
            *sinks(heads),
            *layer_norms(hidden),
        ],
        [sparse if holds_experts else dense for holds_experts in holding],
    )
