"""K-EXAONE: EXAONE 4's attention with DeepSeek's layout of experts after the first dense layers."""

from __future__ import annotations

from capienza.architecture.forward_parts import dense_forward, note_prediction_layers, sparse_flags, sparse_forward
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import read_heads
from capienza.architecture.layer_stack import assemble_stack
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import attention_pieces, gated_mlp, layer_norms, read_experts
from capienza.architecture.reading import MAX_EXPERTS, Config
from capienza.architecture.window_patterns import patterned_attentions


def build(config: Config) -> Architecture:
    """Windows as in EXAONE 4; experts as `mlp_layer_types` says, else from `first_k_dense_replace` on."""
    frame = read_frame(config, hidden_size=4096, num_hidden_layers=32, vocab_size=102_400, max_position_embeddings=2048)
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=32, num_key_value_heads=32)
    experts, chosen = read_experts(config, "num_experts", 64, per_token=8)
    shared = config.integer("num_shared_experts", 1, minimum=0, maximum=MAX_EXPERTS)
    narrow = config.dimension("moe_intermediate_size", 1024)
    sparse = sparse_forward(
        hidden,
        narrow,
        experts,
        chosen,
        shared=shared,
        shared_pieces=gated_mlp(hidden, shared * narrow, name="mlp.shared_experts"),
        correction="mlp.gate.e_score_correction_bias",
    )
    dense = dense_forward(hidden, config.dimension("intermediate_size", 16384))
    first = config.integer("first_k_dense_replace", 1, minimum=0)
    note_prediction_layers(config)
    return assemble_stack(
        config,
        frame,
        patterned_attentions(config, heads, frame.num_layers, window=4096, pattern=4),
        [*attention_pieces(heads, hidden, head_norm=True), *layer_norms(hidden)],
        [
            sparse if holds_experts else dense
            for holds_experts in sparse_flags(config, frame.num_layers, lambda index: index >= first)
        ],
    )
