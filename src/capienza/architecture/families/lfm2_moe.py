"""LFM2 with experts after its first layers."""

from __future__ import annotations

from capienza.architecture.assembly import assemble
from capienza.architecture.frame import read_frame
from capienza.architecture.lfm2_blocks import lfm2_blocks, lfm2_mlp
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import Piece, fused_experts, linear, norm, read_experts
from capienza.architecture.reading import MISSING, Config


def build(config: Config) -> Architecture:
    """Layers as `layer_types` says, which this class needs; the first `num_dense_layers` have an MLP."""
    config = config.with_aliases(tie_word_embeddings="tie_embedding")
    frame = read_frame(
        config,
        hidden_size=2048,
        num_hidden_layers=32,
        vocab_size=65536,
        max_position_embeddings=128_000,
        tied=True,
    )
    hidden = frame.hidden_size
    if config.texts("layer_types") is None:
        config.refuse("layer_types", MISSING(key="layer_types"))
    width = config.dimension("intermediate_size", 7168)
    expert_width = config.dimension("moe_intermediate_size", 1792)
    experts, chosen = read_experts(config, "num_experts", 32, per_token=4)
    dense = (Mlp(kind="dense", intermediate_size=width), lfm2_mlp(hidden, width))
    mixture = (
        Mlp(kind="experts", intermediate_size=expert_width, num_experts=experts, num_experts_per_token=chosen),
        [
            *linear("feed_forward.gate", experts, hidden, "router"),
            *fused_experts(experts, hidden, expert_width, name="feed_forward.experts"),
        ],
    )
    leading = config.integer("num_dense_layers", 2, minimum=0)
    parts = [dense if index < leading else mixture for index in range(frame.num_layers)]
    corrected = config.flag("use_expert_bias", default=True)
    correction: list[Piece] = [("feed_forward.expert_bias", (experts,), "router")] if corrected else []
    blocks = lfm2_blocks(config, frame, parts, lambda _: "conv", correction)
    return assemble(config, frame, blocks, after=norm("model.embedding_norm", hidden))
