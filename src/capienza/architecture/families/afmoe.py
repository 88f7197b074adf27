"""Arcee's Trinity mixtures: gated attention, norms over heads, four norms a layer, windows in three layers of four."""

from __future__ import annotations

from capienza.architecture.forward_parts import dense_forward, sparse_forward
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import read_heads
from capienza.architecture.layer_stack import assemble_stack
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import Piece, attention_pieces, gated_mlp, linear, norm, read_experts
from capienza.architecture.reading import MAX_EXPERTS, Config
from capienza.architecture.window_patterns import ruled_attentions

NORMS = ("input_layernorm", "post_attention_layernorm", "pre_mlp_layernorm", "post_mlp_layernorm")


def build(config: Config) -> Architecture:
    """Every `global_attn_every_n_layers`-th layer is full; experts from layer `num_dense_layers` on."""
    frame = read_frame(
        config, hidden_size=2048, num_hidden_layers=32, vocab_size=200_192, max_position_embeddings=16384
    )
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=16, head_dim=128)
    bias = config.flag("attention_bias", default=False)
    period = config.integer("global_attn_every_n_layers", 4)
    experts, chosen = read_experts(config, "num_experts", 64, per_token=6)
    narrow = config.dimension("moe_intermediate_size", 1408)
    shared = config.integer("num_shared_experts", 2, minimum=0, maximum=MAX_EXPERTS)
    balance: Piece = ("mlp.expert_bias", (experts,), "router")
    sparse = sparse_forward(
        hidden,
        narrow,
        experts,
        chosen,
        shared=shared,
        router="mlp.router.gate",
        shared_pieces=[balance, *gated_mlp(hidden, shared * narrow, name="mlp.shared_experts")],
    )
    dense = dense_forward(hidden, config.dimension("intermediate_size", 6144))
    first = config.integer("num_dense_layers", 1, minimum=0)
    common = [
        *attention_pieces(heads, hidden, bias=bias, output_bias=bias, head_norm=True),
        *linear("self_attn.gate_proj", heads.query_width, hidden, "attention"),
        *(piece for name in NORMS for piece in norm(name, hidden)),
    ]
    return assemble_stack(
        config,
        frame,
        ruled_attentions(config, heads, frame.num_layers, window=1024, full=lambda index: (index + 1) % period == 0),
        common,
        [dense if index < first else sparse for index in range(frame.num_layers)],
    )
