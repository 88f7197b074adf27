"""dots.llm1: heads with norms, DeepSeek's layout of experts, windows only in layers beyond `max_window_layers`."""

from __future__ import annotations

from capienza.architecture.forward_parts import dense_forward, sparse_forward
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import attentions, layer_types, read_heads
from capienza.architecture.layer_stack import assemble_stack
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import attention_pieces, gated_mlp, layer_norms
from capienza.architecture.reading import MAX_EXPERTS, Config


def build(config: Config) -> Architecture:
    """Layers from `first_k_dense_replace` on hold experts; the class has no default for their numbers."""
    config = config.with_aliases(n_routed_experts="num_local_experts")
    frame = read_frame(config, hidden_size=4608, num_hidden_layers=62, vocab_size=152_064, max_position_embeddings=2048)
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=32, num_key_value_heads=32)
    bias = config.flag("attention_bias", default=False)
    window = config.optional("sliding_window", 4096)
    late = frame.num_layers if window is None else config.integer("max_window_layers", 62, minimum=0)
    types = layer_types(
        config, frame.num_layers, lambda index: "sliding_attention" if index >= late else "full_attention"
    )
    experts = config.integer("n_routed_experts", maximum=MAX_EXPERTS)
    chosen = config.integer("num_experts_per_tok", maximum=MAX_EXPERTS)
    if chosen > experts:
        config.broken_rule("num_experts_per_tok", chosen, f"num_experts_per_tok <= n_routed_experts == {experts}")
    shared = config.integer("n_shared_experts", minimum=0, maximum=MAX_EXPERTS)
    narrow = config.dimension("moe_intermediate_size", 1408)
    sparse = sparse_forward(
        hidden,
        narrow,
        experts,
        chosen,
        shared=shared,
        shared_pieces=gated_mlp(hidden, shared * narrow, name="mlp.shared_experts"),
        correction="mlp.gate.e_score_correction_bias",
    )
    dense = dense_forward(hidden, config.dimension("intermediate_size", 10944))
    first = config.integer("first_k_dense_replace", 0, minimum=0)
    return assemble_stack(
        config,
        frame,
        attentions(config, heads, types, window),
        [
            *attention_pieces(heads, hidden, bias=bias, output_bias=bias, head_norm=True),
            *layer_norms(hidden),
        ],
        [sparse if index >= first else dense for index in range(frame.num_layers)],
    )
