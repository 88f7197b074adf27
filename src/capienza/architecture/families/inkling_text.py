"""Inkling, text side: full and windowed layers with short convolutions, experts beside fused shared ones."""

from __future__ import annotations

from capienza.architecture.assembly import assemble
from capienza.architecture.forward_parts import (
    CORRECTION,
    Forward,
    dense_forward,
    layer_block,
    note_prediction_layers,
    sparse_flags,
)
from capienza.architecture.inkling_parts import (
    OLDER_NAMES,
    LayerKind,
    embedding,
    histories,
    read_inkling_frame,
    read_kinds,
    sliding_flags,
)
from capienza.architecture.mixers import convolution
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import Piece, attention_pieces, fused_experts, linear, read_experts
from capienza.architecture.reading import MAX_EXPERTS, Config


def build(config: Config) -> Architecture:
    """Layers as `layer_types` and `mlp_layer_types` say, or the older keys."""
    config = config.with_aliases(**OLDER_NAMES)
    frame = read_inkling_frame(config, hidden_size=6144, num_hidden_layers=66, max_positions=131_072)
    hidden = frame.hidden_size
    kinds = read_kinds(config, num_attention_heads=64, swa_num_key_value_heads=16, window=512)
    kernel, relative = config.integer("conv_kernel_size", 4), config.integer("d_rel", 16)
    mixing = [_mixing(kind, hidden, kernel, relative) for kind in kinds]
    states = [histories(kind, hidden, kernel) for kind in kinds]
    attentions = [
        kind.heads.attention() if kind.window is None else kind.heads.attention("sliding", kind.window)
        for kind in kinds
    ]
    forwards = _forwards(config, hidden)
    first = config.integer("dense_mlp_idx", 0, minimum=0)
    flags = sparse_flags(config, frame.num_layers, lambda index: index >= first)
    note_prediction_layers(config, "num_mtp_layers")
    blocks = [
        layer_block(hidden, forwards[flag], mixing[slides], attention=attentions[slides], state=states[slides])
        for flag, slides in zip(flags, sliding_flags(config, frame.num_layers, listed=True), strict=True)
    ]
    return assemble(config, frame, blocks, before=embedding(frame))


def _mixing(kind: LayerKind, hidden: int, kernel: int, relative: int) -> list[Piece]:
    """Attention with relative positions, and the four convolutions of a layer."""
    heads = kind.heads
    return [
        *attention_pieces(heads, hidden, head_norm=True),
        *linear("self_attn.r_proj", heads.num_attention_heads * relative, hidden, "attention"),
        ("self_attn.rel_logits_proj.proj", (relative, kind.reach), "position"),
        *convolution("self_attn.k_sconv.conv1d", heads.key_width, kernel, bias=False),
        *convolution("self_attn.v_sconv.conv1d", heads.key_width, kernel, bias=False),
        *convolution("attn_sconv.conv1d", hidden, kernel, bias=False),
        *convolution("mlp_sconv.conv1d", hidden, kernel, bias=False),
    ]


def _forwards(config: Config, hidden: int) -> list[Forward]:
    """The dense and the sparse part. Older files name the dense width apart, and the experts' as the usual one."""
    older = config.optional("dense_intermediate_size")
    width = config.dimension("intermediate_size", 24576)
    dense = dense_forward(hidden, older or width)
    narrow = width if older else config.dimension("moe_intermediate_size", 3072)
    experts, chosen = read_experts(config, "n_routed_experts", 256, per_token=6)
    shared = config.integer("n_shared_experts", 2, minimum=0, maximum=MAX_EXPERTS)
    scale: Piece = ("mlp.global_scale", (1,), "mlp")
    pieces: list[Piece] = [
        *linear("mlp.gate", experts + shared, hidden, "router"),
        ("mlp.gate.global_scale", (1,), "router"),
        *fused_experts(experts, hidden, narrow),
        ("mlp.shared_experts.gate_proj", (shared, narrow, hidden), "mlp"),
        ("mlp.shared_experts.up_proj", (shared, narrow, hidden), "mlp"),
        ("mlp.shared_experts.down_proj", (shared, hidden, narrow), "mlp"),
    ]
    mlp = Mlp(
        kind="experts",
        intermediate_size=narrow,
        num_experts=experts,
        num_experts_per_token=chosen,
        num_shared_experts=shared,
    )
    return [Forward(dense.mlp, [*dense.pieces, scale]), Forward(mlp, pieces, [(CORRECTION, (experts,), "router")])]
