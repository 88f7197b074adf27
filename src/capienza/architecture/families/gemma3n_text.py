"""Gemma 3n, text side: four residual streams, an embedding for each layer, and last layers without keys and values."""

from __future__ import annotations

import msgspec

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import Frame, read_frame
from capienza.architecture.heads import attentions, layer_types, read_heads
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.per_layer_inputs import PerLayerInputs
from capienza.architecture.pieces import Piece, gated_mlp, linear, norm
from capienza.architecture.plain import FOUR_NORMS
from capienza.architecture.reading import Config
from capienza.architecture.shared_caches import cache_sources
from capienza.architecture.shared_pieces import own_attention_pieces

MAX_STREAMS = 1024


def build(config: Config) -> Architecture:
    """Every fifth layer is full, unless `layer_types` says otherwise."""
    frame = read_frame(
        config,
        hidden_size=2048,
        num_hidden_layers=35,
        vocab_size=262_400,
        max_position_embeddings=32768,
        tied=True,
    )
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=8, num_key_value_heads=2, head_dim=256)
    types = layer_types(
        config, frame.num_layers, lambda index: "sliding_attention" if (index + 1) % 5 else "full_attention"
    )
    layers = attentions(config, heads, types, config.optional("sliding_window", 512))
    bias = config.flag("attention_bias", default=False)
    streams = config.integer("altup_num_inputs", 4, maximum=MAX_STREAMS)
    inputs = PerLayerInputs(
        vocab=config.integer("vocab_size_per_layer_input", 262_144),
        width=config.integer("hidden_size_per_layer_input", 256),
    )
    common = [
        *_streams(hidden, streams),
        *_laurel(hidden, config.integer("laurel_rank", 64)),
        *inputs.layer_pieces(hidden),
        *(piece for name in FOUR_NORMS for piece in norm(name, hidden)),
    ]
    sources = cache_sources(config, types, 15)
    blocks = [
        Block(
            attention=msgspec.structs.replace(attention, shares_cache_of=source),
            mlp=Mlp(kind="dense", intermediate_size=width),
            pieces=[
                *own_attention_pieces(heads, hidden, bias=bias, keys=source is None),
                *gated_mlp(hidden, width),
                *common,
            ],
        )
        for attention, source, width in zip(layers, sources, _widths(config, frame), strict=True)
    ]
    mixing = [
        piece
        for name in ("altup_projections", "altup_unembed_projections")
        for stream in range(streams - 1)
        for piece in linear(f"model.{name}.{stream}", hidden, hidden, "other")
    ]
    return assemble(
        config,
        frame,
        blocks,
        before=[
            ("model.embed_tokens.weight", (frame.vocab_size, hidden), "embedding"),
            *inputs.model_pieces(hidden, frame.num_layers),
            *mixing,
        ],
    )


def _widths(config: Config, frame: Frame) -> list[int]:
    """One width for all MLPs, or a list with one for each."""
    key = "intermediate_size"
    if not isinstance(config.raw(key), list | tuple):
        return [config.dimension(key, 16384)] * frame.num_layers
    stated = list(config.integers(key, minimum=1) or ())
    if len(stated) != frame.num_layers:
        config.broken_rule(key, stated, f"len({key}) == {frame.num_layers}")
    return stated


def _streams(hidden: int, streams: int) -> list[Piece]:
    """What predicts and corrects the residual streams around the layer."""
    return [
        ("altup.correct_output_scale", (hidden,), "other"),
        *linear("altup.correction_coefs", streams, streams, "other"),
        *linear("altup.prediction_coefs", streams**2, streams, "other"),
        *linear("altup.modality_router", streams, hidden, "other"),
        *norm("altup.router_norm", hidden),
    ]


def _laurel(hidden: int, rank: int) -> list[Piece]:
    """A residual through a narrow space."""
    return [
        *linear("laurel.linear_left", rank, hidden, "other"),
        *linear("laurel.linear_right", hidden, rank, "other"),
        *norm("laurel.post_laurel_norm", hidden),
    ]
