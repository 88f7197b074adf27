"""Gemma 4: full layers with heads of another size than windowed ones, shared caches, and parts that some models have.

Legend: a draft model has the same layers, but reads all its keys and values from the model it drafts for.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import Frame, read_frame
from capienza.architecture.heads import Heads, layer_types, read_heads
from capienza.architecture.layer_overrides import layer_overrides
from capienza.architecture.model import Architecture, Attention, Mlp
from capienza.architecture.per_layer_inputs import PerLayerInputs
from capienza.architecture.pieces import Piece, fused_experts, gated_mlp, linear, norm, read_experts
from capienza.architecture.plain import FOUR_NORMS
from capienza.architecture.reading import MAX_LAYERS, Config
from capienza.architecture.shared_caches import cache_sources
from capienza.architecture.shared_pieces import own_attention_pieces

ANOTHER_MODEL = -1
DIRECTIONS = ("all", "vision")
OVERRIDDEN = frozenset({"head_dim", "num_key_value_heads"})


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """What differs between Gemma 4 and its unified models: defaults, and whether the optional parts exist."""

    window: int
    max_positions: int
    options: bool


GEMMA4 = Variant(window=512, max_positions=131_072, options=True)
UNIFIED = Variant(window=1024, max_positions=262_144, options=False)


def gemma4_model(config: Config, variant: Variant, *, draft: bool = False) -> Architecture:
    """The text model; with `draft` no layer has keys and values of its own."""
    frame = read_frame(
        config,
        hidden_size=2304,
        num_hidden_layers=30,
        vocab_size=262_144,
        max_position_embeddings=variant.max_positions,
        tied=True,
    )
    hidden = frame.hidden_size
    types = _types(config, frame.num_layers)
    inputs = _inputs(config) if variant.options else None
    sources = _all_from_another(config, frame) if draft else cache_sources(config, types, 0)
    bias = config.flag("attention_bias", default=False)
    one_for_both = config.flag("attention_k_eq_v", default=False)
    forwards = _forwards(config, hidden, variant)
    common = [
        *(piece for name in FOUR_NORMS for piece in norm(name, hidden)),
        *(inputs.layer_pieces(hidden) if inputs else []),
    ]
    blocks = []
    for kind, source, heads in zip(types, sources, _heads(config, frame, types, one_for_both), strict=True):
        mlp, forward = forwards[source is not None]
        windowed = kind == "sliding_attention"
        blocks.append(
            Block(
                attention=_attention(config, heads, variant, windowed, source),
                mlp=mlp,
                pieces=[
                    *own_attention_pieces(
                        heads, hidden, bias=bias, keys=source is None, values=windowed or not one_for_both
                    ),
                    *forward,
                    *common,
                ],
                buffers=[("layer_scalar", (1,), "other")],
            )
        )
    before: list[Piece] = [
        ("model.embed_tokens.weight", (frame.vocab_size, hidden), "embedding"),
        *(inputs.model_pieces(hidden, frame.num_layers) if inputs else []),
    ]
    return assemble(config, frame, blocks, before=before)


def _types(config: Config, num_layers: int) -> list[str]:
    """Every sixth layer is full unless `layer_types` says otherwise; the last always is."""
    types = layer_types(config, num_layers, lambda index: "sliding_attention" if (index + 1) % 6 else "full_attention")
    return [*types[:-1], "full_attention"]


def _heads(config: Config, frame: Frame, types: Sequence[str], one_for_both: bool) -> list[Heads]:
    """Full layers have heads of `global_head_dim`; files saved by transformers state each layer's instead."""
    usual = read_heads(config, frame.hidden_size, num_attention_heads=8, num_key_value_heads=4, head_dim=256)
    overrides = layer_overrides(config, frame.num_layers, OVERRIDDEN)
    if overrides is not None:
        return [_overridden(usual, overrides.get(index)) for index in range(frame.num_layers)]
    kv_heads = config.optional("num_global_key_value_heads") if one_for_both else None
    count, kv_heads = usual.num_attention_heads, kv_heads or usual.num_key_value_heads
    if count % kv_heads:
        config.broken_rule("num_global_key_value_heads", kv_heads, f"{count} % num_global_key_value_heads == 0")
    full = Heads(count, kv_heads, config.integer("global_head_dim", 512))
    return [full if kind == "full_attention" else usual for kind in types]


def _overridden(usual: Heads, view: Config | None) -> Heads:
    """The heads of a layer that has some keys of its own."""
    if view is None:
        return usual
    count = usual.num_attention_heads
    kv_heads = view.optional("num_key_value_heads") or usual.num_key_value_heads
    if count % kv_heads:
        view.broken_rule("num_key_value_heads", kv_heads, f"{count} % num_key_value_heads == 0")
    return Heads(count, kv_heads, view.optional("head_dim") or usual.head_dim)


def _attention(config: Config, heads: Heads, variant: Variant, windowed: bool, source: int | None) -> Attention:
    if not windowed:
        return msgspec.structs.replace(heads.attention(), shares_cache_of=source)
    window = config.integer("sliding_window", variant.window)
    if config.raw("use_bidirectional_attention") is not None:
        directions = config.text("use_bidirectional_attention")
        if directions not in DIRECTIONS:
            config.contradiction("use_bidirectional_attention", directions, ", ".join(DIRECTIONS))
        if directions == "all":
            window = window // 2 + 1  # the window then counts both directions
    return msgspec.structs.replace(heads.attention("sliding", window), shares_cache_of=source)


def _inputs(config: Config) -> PerLayerInputs | None:
    """The embeddings for each layer, unless their width is 0."""
    width = config.integer("hidden_size_per_layer_input", 256, minimum=0)
    vocab = config.integer("vocab_size_per_layer_input", 262_144, minimum=0)
    return PerLayerInputs(vocab, width) if width else None


def _all_from_another(config: Config, frame: Frame) -> list[int | None]:
    """A draft model shares all its layers, whether it says so or is silent."""
    key = "num_kv_shared_layers"
    stated = config.optional(key, minimum=0, maximum=MAX_LAYERS)
    if stated and stated != frame.num_layers:
        config.broken_rule(key, stated, f"{key} == num_hidden_layers == {frame.num_layers}")
    return [ANOTHER_MODEL] * frame.num_layers


def _forwards(config: Config, hidden: int, variant: Variant) -> dict[bool, tuple[Mlp, list[Piece]]]:
    """The feed-forward part of layers with keys and values of their own (false) and without (true)."""
    width = config.dimension("intermediate_size", 9216)
    wide = 2 * width if config.flag("use_double_wide_mlp", default=False) else width
    if not variant.options or not config.flag("enable_moe_block", default=False):
        return {
            shared: (Mlp(kind="dense", intermediate_size=size), gated_mlp(hidden, size))
            for shared, size in ((False, width), (True, wide))
        }
    config = config.with_aliases(num_experts_per_tok="top_k_experts")
    experts, chosen = read_experts(config, "num_experts", 128, per_token=None)
    narrow = config.integer("moe_intermediate_size")
    mlp = Mlp(
        kind="experts",
        intermediate_size=narrow,
        num_experts=experts,
        num_experts_per_token=chosen,
        num_shared_experts=1,
    )
    mixture: list[Piece] = [
        *linear("router.proj", experts, hidden, "router"),
        ("router.scale", (hidden,), "router"),
        ("router.per_expert_scale", (experts,), "router"),
        *fused_experts(experts, hidden, narrow, name="experts"),
        *norm("post_feedforward_layernorm_1", hidden),
        *norm("post_feedforward_layernorm_2", hidden),
        *norm("pre_feedforward_layernorm_2", hidden),
    ]
    return {shared: (mlp, [*gated_mlp(hidden, size), *mixture]) for shared, size in ((False, width), (True, wide))}
