"""Cohere 2 mixtures: Command's block with experts, dense layers first, three windowed layers to one full."""

from __future__ import annotations

from capienza.architecture.forward_parts import dense_forward, sparse_flags, sparse_forward
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import read_heads
from capienza.architecture.layer_stack import assemble_stack
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import attention_pieces, gated_mlp, norm, read_experts
from capienza.architecture.reading import MAX_EXPERTS, Config
from capienza.architecture.window_patterns import ruled_attentions


def build(config: Config) -> Architecture:
    """The first `first_k_dense_replace` layers are dense and have a window pattern of their own."""
    frame = read_frame(
        config,
        hidden_size=8192,
        num_hidden_layers=40,
        vocab_size=256_000,
        max_position_embeddings=8192,
        tied=True,
    )
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=64, head_dim=128)
    bias = config.flag("attention_bias", default=False)
    first = config.optional("first_k_dense_replace", minimum=0) or 0
    before = config.integer("prefix_dense_sliding_window_pattern", 1)
    period = config.integer("sliding_window_pattern", 4)
    width = config.dimension("intermediate_size", 22528)
    experts, chosen = read_experts(config, "num_experts", 8, per_token=2)
    shared = config.integer("num_shared_experts", 0, minimum=0, maximum=MAX_EXPERTS)
    beside = gated_mlp(hidden, shared * width, name="mlp.shared_experts") if shared else []
    sparse = sparse_forward(hidden, width, experts, chosen, shared=shared, shared_pieces=beside)
    dense = dense_forward(hidden, config.optional("prefix_dense_intermediate_size") or width)

    def full(index: int) -> bool:
        return (index + 1) % before == 0 if index < first else (index - first + 1) % period == 0

    return assemble_stack(
        config,
        frame,
        ruled_attentions(config, heads, frame.num_layers, window=4096, full=full),
        [*attention_pieces(heads, hidden, bias=bias, output_bias=bias), *norm("input_layernorm", hidden)],
        [
            sparse if holds_experts else dense
            for holds_experts in sparse_flags(config, frame.num_layers, lambda index: index >= first)
        ],
    )
