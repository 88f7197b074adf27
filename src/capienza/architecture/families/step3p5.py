"""Step 3.5 and the text side of 3.7: a gate for each head, experts beside a shared one, more heads in windows."""

from __future__ import annotations

from capienza.architecture.assembly import assemble
from capienza.architecture.forward_parts import (
    Forward,
    dense_forward,
    layer_block,
    note_prediction_layers,
    sparse_forward,
)
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import Heads, attentions
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import Piece, attention_pieces, gated_mlp, linear, read_experts
from capienza.architecture.reading import Config
from capienza.architecture.step_layers import SLIDING, step_heads, step_sparse, step_types

READS_PER_LAYER = True


def build(config: Config) -> Architecture:
    """Each layer has its own kind of attention, its own heads and its own kind of MLP."""
    config = config.with_aliases(
        n_routed_experts="moe_num_experts",
        num_experts_per_tok="moe_top_k",
        share_expert_dim="share_expert_dims",
        num_key_value_heads="num_attention_groups",
        num_nextn_predict_layers="num_mtp_layers",
    )
    frame = read_frame(
        config, hidden_size=4096, num_hidden_layers=45, vocab_size=128_815, max_position_embeddings=128_000
    )
    hidden = frame.hidden_size
    count = config.dimension("num_attention_heads", 64)
    kv_heads = config.integer("num_key_value_heads", 8)
    head_dim = config.integer("head_dim", 128)
    types = step_types(config, frame.num_layers)
    counts = step_heads(config, types, heads=count, kv_heads=kv_heads, head_dim=head_dim)
    for number in {count, *counts}:
        if number % kv_heads:
            config.broken_rule("num_key_value_heads", kv_heads, f"{number} % num_key_value_heads == 0")
    window = config.optional("sliding_window") if SLIDING in types else None
    kept = {number: attentions(config, Heads(number, kv_heads, head_dim), types, window) for number in {*counts}}
    pieces = {number: _mixing(config, Heads(number, kv_heads, head_dim), hidden) for number in kept}
    forwards = _forwards(config, hidden)
    note_prediction_layers(config)
    flags = step_sparse(config, frame.num_layers)
    blocks = [
        layer_block(hidden, forwards[flag], pieces[number], attention=kept[number][index])
        for index, (flag, number) in enumerate(zip(flags, counts, strict=True))
    ]
    return assemble(config, frame, blocks)


def _mixing(config: Config, heads: Heads, hidden: int) -> list[Piece]:
    """The tensors that attend; the gate has one value for each head, or with another `gating` for each element."""
    bias = config.flag("attention_bias", default=False)
    whole = config.has("gating") and config.raw("gating") not in (True, "per-head")
    if whole:
        config.flag("gating", default=False)
    return [
        *attention_pieces(heads, hidden, bias=bias, output_bias=bias, head_norm=True),
        *linear("self_attn.g_proj", heads.query_width if whole else heads.num_attention_heads, hidden, "attention"),
    ]


def _forwards(config: Config, hidden: int) -> dict[bool, Forward]:
    """The MLP of dense layers (false), the experts of the others (true)."""
    bias = config.flag("mlp_bias", default=False)
    width = config.dimension("moe_intermediate_size", 1280)
    experts, chosen = read_experts(config, "n_routed_experts", 288, per_token=8)
    other = config.optional("num_local_experts")
    if other not in (None, experts):
        config.contradiction("num_local_experts", other, str(experts))
    shared = config.dimension("share_expert_dim", 1280)
    beside = gated_mlp(hidden, shared, bias=bias, name="mlp.shared_experts")
    return {
        False: dense_forward(hidden, config.dimension("intermediate_size", 11264), bias=bias),
        True: sparse_forward(
            hidden,
            width,
            experts,
            chosen,
            shared=1,
            shared_pieces=beside,
            correction="mlp.gate.e_score_correction_bias",
        ),
    }
