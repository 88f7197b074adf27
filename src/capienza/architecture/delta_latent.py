"""What Kimi Linear and Ring-Lite hybrids share: delta and latent attention in turn, DeepSeek's experts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from capienza.architecture.assembly import assemble
from capienza.architecture.forward_parts import (
    dense_forward,
    late_experts,
    layer_block,
    note_prediction_layers,
    read_deepseek_experts,
    sparse_flags,
)
from capienza.architecture.frame import Frame, read_frame
from capienza.architecture.heads import layer_types
from capienza.architecture.kimi_delta import KimiDelta
from capienza.architecture.latent import Latent
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import Piece
from capienza.architecture.reading import Config

LAYER_TYPES = frozenset({"full_attention", "linear_attention"})


def with_older_names(config: Config) -> Config:
    """The view with the names that the published files use."""
    return config.with_aliases(
        max_position_embeddings="model_max_length",
        num_local_experts="num_experts",
        num_experts_per_tok="num_experts_per_token",
        n_shared_experts="num_shared_experts",
        num_nextn_predict_layers="num_mtp_layers",
    )


def read_untied_frame(
    config: Config, *, hidden_size: int, num_hidden_layers: int, vocab_size: int, max_position_embeddings: int
) -> Frame:
    """The frame of a class that ties nothing, whatever the config says; the arguments are its defaults."""
    frame = read_frame(
        config,
        hidden_size=hidden_size,
        num_hidden_layers=num_hidden_layers,
        vocab_size=vocab_size,
        max_position_embeddings=max_position_embeddings,
    )
    return msgspec.structs.replace(frame, tied_head=False)


def assemble_delta_latent(
    config: Config,
    frame: Frame,
    latent: Latent,
    delta: KimiDelta,
    *,
    gate: Sequence[Piece] = (),
    full: Callable[[int], bool],
    intermediate_size: int,
    moe_intermediate_size: int,
    num_experts: int,
    first_k_dense_replace: int,
    prediction_layers: int = 0,
) -> Architecture:
    """A hybrid model; `full` is the class rule for the layers that attend, `gate` their gate on the output."""
    hidden = frame.hidden_size
    mixer = delta.mixer("self_attn")
    attending = [*latent.pieces(hidden, config.flag("attention_bias", default=False)), *gate]
    dense = dense_forward(hidden, config.dimension("intermediate_size", intermediate_size))
    sparse = read_deepseek_experts(
        config,
        hidden,
        moe_intermediate_size=moe_intermediate_size,
        n_routed_experts=num_experts,
        n_shared_experts=1,
        num_experts_per_tok=8,
        experts_key="num_local_experts",
    )
    note_prediction_layers(config, default=prediction_layers)
    kinds = layer_types(
        config,
        frame.num_layers,
        lambda index: "full_attention" if full(index) else "linear_attention",
        LAYER_TYPES,
    )
    flags = sparse_flags(config, frame.num_layers, late_experts(config, first=first_k_dense_replace))
    blocks = []
    for kind, flag in zip(kinds, flags, strict=True):
        forward = sparse if flag else dense
        if kind == "full_attention":
            blocks.append(layer_block(hidden, forward, attending, attention=latent.attention))
        else:
            blocks.append(layer_block(hidden, forward, mixer.pieces, state=mixer.state))
    return assemble(config, frame, blocks)
