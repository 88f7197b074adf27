"""Nemotron Dory: normalised residuals without norm weights, and a section of layers that runs several times."""

from __future__ import annotations

import msgspec

from capienza.architecture.dory_plan import Plan, read_plan
from capienza.architecture.frame import Frame
from capienza.architecture.heads import Heads, attentions, read_heads
from capienza.architecture.layer_stack import assemble_stack, plain_part
from capienza.architecture.model import Architecture, Attention
from capienza.architecture.pieces import Piece, attention_pieces, gated_mlp, linear
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers hold the same tensors; the head has a scale for each word, which stays its own when it is tied."""
    plan = read_plan(config)
    frame = Frame(
        hidden_size=config.dimension("hidden_size", 2560),
        num_layers=len(plan.types),
        vocab_size=config.dimension("vocab_size", 131_072),
        max_positions=config.integer("max_position_embeddings", 8192),
        tied_head=config.flag("tie_word_embeddings", default=False),
    )
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=16, num_key_value_heads=4, head_dim=256)
    bias = config.flag("attention_bias", default=False)
    width = config.dimension("intermediate_size", 7168)
    mlp: list[Piece] = [
        *gated_mlp(hidden, width, bias=config.flag("mlp_bias", default=False)),
        ("mlp.suv_gate", (width,), "mlp"),
        ("mlp.suv_up", (width,), "mlp"),
    ]
    common: list[Piece] = [
        *attention_pieces(heads, hidden, bias=bias, output_bias=bias),
        *linear("self_attn.gate_proj", heads.query_width, hidden, "attention"),
        ("self_attn.sqk", (heads.query_width,), "attention"),
        ("self_attn.s_gate", (heads.query_width,), "attention"),
        ("lambda_1", (hidden,), "other"),
        ("lambda_2", (hidden,), "other"),
    ]
    head: list[Piece] = [
        ("lm_head.weight", (frame.vocab_size, hidden), "head"),
        ("lm_head.logit_scale", (frame.vocab_size,), "head"),
    ]
    forwards = [plain_part(width, mlp)] * frame.num_layers
    return assemble_stack(config, frame, _attentions(config, heads, plan), common, forwards, after=[], head=head)


def _attentions(config: Config, heads: Heads, plan: Plan) -> list[Attention]:
    """The layers of the section keep a cache for each time they run."""
    made = attentions(config, heads, plan.types, config.integer("sliding_window", 1024))
    return [
        msgspec.structs.replace(attention, passes=plan.caches if index in plan.repeated else 1)
        for index, attention in enumerate(made)
    ]
