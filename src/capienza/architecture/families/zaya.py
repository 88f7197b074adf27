"""Zaya: convolved attention whose values are half the token's and half the one before's; experts with a deep router."""

from __future__ import annotations

from capienza.architecture.assembly import assemble
from capienza.architecture.forward_parts import Forward, layer_block
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import Heads, layer_types, read_heads
from capienza.architecture.model import Architecture, Mlp, State, StatePart
from capienza.architecture.pieces import Piece, fused_experts, layer_norms, linear, norm, read_experts
from capienza.architecture.reading import Config

SLIDING, FULL = "hybrid_sliding", "hybrid"
LAYER_TYPES = frozenset({SLIDING, FULL})


def build(config: Config) -> Architecture:
    """All layers full, unless `layer_types` says otherwise. The first has no state of the router before it."""
    frame = read_frame(
        config,
        hidden_size=2048,
        num_hidden_layers=40,
        vocab_size=262_272,
        max_position_embeddings=131_072,
        tied=True,
    )
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=8, num_key_value_heads=2, head_dim=128)
    if heads.key_width % 2:
        config.broken_rule("head_dim", heads.head_dim, "num_key_value_heads * head_dim % 2 == 0")
    window = config.optional("sliding_window")
    kinds = layer_types(config, frame.num_layers, lambda _: FULL, LAYER_TYPES)
    if SLIDING in kinds and window is None:
        config.broken_rule("sliding_window", window, f"sliding_window >= 1 ({SLIDING})")
    mixing, state = _mixing(config, heads, hidden)
    first, later = _forward(config, hidden, deep=False), _forward(config, hidden, deep=True)
    norms = [
        *layer_norms(hidden),
        *_scaling("post_attention_residual_scale", hidden),
        *_scaling("post_mlp_residual_scale", hidden),
    ]
    blocks = [
        layer_block(
            hidden,
            later if index else first,
            mixing,
            attention=heads.attention("sliding", window) if kind == SLIDING else heads.attention(),
            state=state,
            norms=norms,
        )
        for index, kind in enumerate(kinds)
    ]
    scales: list[Piece] = [
        ("model.input_hidden_states_scale", (hidden,), "norm"),
        ("model.input_hidden_states_bias", (hidden,), "norm"),
    ]
    return assemble(
        config,
        frame,
        blocks,
        after=[*norm("model.norm", hidden), *scales],
        head=linear("lm_head", frame.vocab_size, hidden, "head", config.flag("lm_head_bias", default=False)),
    )


def _mixing(config: Config, heads: Heads, hidden: int) -> tuple[list[Piece], State]:
    """Two convolutions over Q and K together, which keep their history, and values from two tokens."""
    first, second = config.integer("cca_time0", 2), config.integer("cca_time1", 2)
    columns = first + second - 2
    if not columns:
        config.broken_rule("cca_time0", first, "cca_time0 + cca_time1 > 2")
    bias = config.flag("attention_bias", default=False)
    channels, half = heads.query_width + heads.key_width, heads.key_width // 2
    name = "self_attn.qkv_proj"
    pieces: list[Piece] = [
        *linear("self_attn.o_proj", hidden, heads.query_width, "attention", bias),
        *linear(f"{name}.q_proj", heads.query_width, hidden, "attention", bias),
        *linear(f"{name}.k_proj", heads.key_width, hidden, "attention", bias),
        *linear(f"{name}.v_proj_current", half, hidden, "attention", bias),
        *linear(f"{name}.v_proj_delayed", half, hidden, "attention", bias),
        (f"{name}.conv_qk_depthwise.weight", (channels, 1, first), "state"),
        (f"{name}.conv_qk_depthwise.bias", (channels,), "state"),
        (f"{name}.conv_qk_grouped.weight", (channels, heads.head_dim, second), "state"),
        (f"{name}.conv_qk_grouped.bias", (channels,), "state"),
        ("self_attn.qk_norm.temp", (heads.num_key_value_heads,), "norm"),
    ]
    parts = (StatePart("history", (columns, channels)), StatePart("delayed", (half,)))
    return pieces, State("conv", parts)


def _scaling(name: str, hidden: int) -> list[Piece]:
    """A scale and a shift of the stream, and of what a part adds to it."""
    return [
        (f"{name}.{part}", (hidden,), "norm")
        for part in ("hidden_states_scale", "hidden_states_bias", "residual_scale", "residual_bias")
    ]


def _forward(config: Config, hidden: int, *, deep: bool) -> Forward:
    """Experts and a router of several layers, with one more class for no expert at all."""
    experts, chosen = read_experts(config, "num_experts", 16, per_token=1)
    width = config.dimension("moe_intermediate_size", 2048)
    router = config.integer("router_hidden_size", 256)
    gate = "mlp.gate"
    scale: list[Piece] = [(f"{gate}.router_states_scale", (router,), "router")] if deep else []
    pieces: list[Piece] = [
        *linear(f"{gate}.down_proj", router, hidden, "router", bias=True),
        *scale,
        *norm(f"{gate}.router_mlp.norm", router),
        *linear(f"{gate}.router_mlp.fc1", router, router, "router", bias=True),
        *linear(f"{gate}.router_mlp.fc2", router, router, "router", bias=True),
        *linear(f"{gate}.router_mlp.out_proj", experts + 1, router, "router"),
        *fused_experts(experts, hidden, width),
    ]
    mlp = Mlp(kind="experts", intermediate_size=width, num_experts=experts, num_experts_per_token=chosen)
    return Forward(mlp, pieces, [(f"{gate}.balancing_biases", (experts + 1,), "router")])
