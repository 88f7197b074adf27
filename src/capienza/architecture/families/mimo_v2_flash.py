"""MiMo V2 Flash: windows in most layers, with twice the K and V heads and a sink for each head; narrow values."""

from __future__ import annotations

from collections.abc import Sequence

from capienza.architecture.assembly import assemble
from capienza.architecture.forward_parts import (
    dense_forward,
    layer_block,
    note_prediction_layers,
    read_deepseek_experts,
    sparse_flags,
)
from capienza.architecture.frame import Frame, read_frame
from capienza.architecture.heads import Heads, layer_types, read_heads
from capienza.architecture.model import Architecture, Attention
from capienza.architecture.pieces import Piece, linear
from capienza.architecture.reading import Config

PERIOD = 6
SLIDING_FACTOR = 2
SLIDING = "sliding_attention"


def build(config: Config) -> Architecture:
    """The first layer and every sixth are full, unless `layer_types` says otherwise; the first is dense."""
    config = config.with_aliases(n_routed_experts="num_local_experts", num_nextn_predict_layers="num_mtp_layers")
    frame = read_frame(
        config, hidden_size=4096, num_hidden_layers=48, vocab_size=152_576, max_position_embeddings=131_072
    )
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=64, num_key_value_heads=4, head_dim=192)
    value = config.integer("v_head_dim", 128)
    types = layer_types(
        config, frame.num_layers, lambda index: SLIDING if index and (index + 1) % PERIOD else "full_attention"
    )
    flags = sparse_flags(config, frame.num_layers, lambda index: index >= 1)
    _check_own_keys(config, frame, heads, value, types, flags)
    kinds = {kind: _attention(config, heads, value, kind) for kind in set(types)}
    bias = config.flag("attention_bias", default=False)
    pieces = {kind: _pieces(attention, hidden, bias) for kind, attention in kinds.items()}
    dense = dense_forward(hidden, config.dimension("intermediate_size", 16384))
    sparse = read_deepseek_experts(
        config,
        hidden,
        moe_intermediate_size=2048,
        n_routed_experts=256,
        n_shared_experts=None,
        num_experts_per_tok=8,
    )
    note_prediction_layers(config)
    blocks = [
        layer_block(hidden, sparse if flag else dense, pieces[kind], attention=kinds[kind])
        for kind, flag in zip(types, flags, strict=True)
    ]
    return assemble(config, frame, blocks)


def _attention(config: Config, heads: Heads, value: int, kind: str) -> Attention:
    """Attention of one kind of layer; the published window does not count the token itself."""
    sliding = kind == SLIDING
    kv_heads = heads.num_key_value_heads * (SLIDING_FACTOR if sliding else 1)
    if heads.num_attention_heads % kv_heads:
        config.broken_rule(
            "num_key_value_heads",
            heads.num_key_value_heads,
            f"{heads.num_attention_heads} % ({SLIDING_FACTOR} * num_key_value_heads) == 0",
        )
    own = config.optional("sliding_window_size")
    window = config.optional("sliding_window", 129) if own is None else own + 1
    if sliding and window is None:
        config.broken_rule("sliding_window", None, "sliding_window >= 1")
    return Attention(
        kind="sliding" if sliding else "full",
        num_attention_heads=heads.num_attention_heads,
        num_key_value_heads=kv_heads,
        key_head_dim=heads.head_dim,
        value_head_dim=value,
        window=window if sliding else None,
    )


def _pieces(attention: Attention, hidden: int, bias: bool) -> list[Piece]:
    """Projections of Q and K, and narrower ones of the values; a sliding layer has a sink for each head."""
    heads, kv_heads = attention.num_attention_heads, attention.num_key_value_heads
    sinks: list[Piece] = [("self_attn.sinks", (heads,), "attention")] if attention.kind == "sliding" else []
    return [
        *sinks,
        *linear("self_attn.q_proj", heads * attention.key_head_dim, hidden, "attention", bias),
        *linear("self_attn.k_proj", kv_heads * attention.key_head_dim, hidden, "attention", bias),
        *linear("self_attn.v_proj", kv_heads * attention.value_head_dim, hidden, "attention", bias),
        *linear("self_attn.o_proj", hidden, heads * attention.value_head_dim, "attention"),
    ]


def _check_own_keys(
    config: Config, frame: Frame, heads: Heads, value: int, types: Sequence[str], flags: Sequence[bool]
) -> None:
    """The published files say in keys of their own what transformers fixes: both must agree."""
    expected = {
        "swa_num_attention_heads": heads.num_attention_heads,
        "swa_num_key_value_heads": SLIDING_FACTOR * heads.num_key_value_heads,
        "swa_head_dim": heads.head_dim,
        "swa_v_head_dim": value,
    }
    for key, size in expected.items():
        stated = config.optional(key)
        if stated not in (None, size):
            config.contradiction(key, stated, str(size))
    patterns = {"hybrid_layer_pattern": [kind == SLIDING for kind in types], "moe_layer_freq": flags}
    for key, layout in patterns.items():
        pattern = config.integers(key, maximum=1)
        if pattern is not None and pattern != tuple(int(layer) for layer in layout):
            config.contradiction(key, pattern, ", ".join(str(int(layer)) for layer in layout)[:200])
    config.integers("hybrid_layer_pattern", maximum=frame.num_layers)
