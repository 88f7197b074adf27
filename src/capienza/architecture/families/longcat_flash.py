"""LongCat Flash: two latent attentions and two MLPs in every layer, with a mixture beside them.

The two attentions of a layer keep a cache each. Zero-computation experts have no down projection, but transformers
makes room for their gate and up projections.
"""

from __future__ import annotations

import msgspec

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import Frame
from capienza.architecture.latent import read_latent
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import Piece, gated_mlp, linear, norm, read_experts
from capienza.architecture.reading import MAX_EXPERTS, MAX_LAYERS, Config

ATTENTIONS = 2


def build(config: Config) -> Architecture:
    """All layers alike."""
    config = config.with_aliases(
        n_routed_experts="num_local_experts",
        num_experts_per_tok="moe_topk",
        intermediate_size="ffn_hidden_size",
        moe_intermediate_size="expert_ffn_hidden_size",
        num_nextn_predict_layers="num_mtp_layers",
    )
    frame = _frame(config)
    hidden = frame.hidden_size
    latent = read_latent(config, num_attention_heads=64, compressed=True)
    dense = config.dimension("intermediate_size", 12288)
    own = [
        *latent.pieces(hidden, config.flag("attention_bias", default=False)),
        *gated_mlp(hidden, dense, name="mlps"),
        *norm("input_layernorm", hidden),
        *norm("post_attention_layernorm", hidden),
    ]
    mlp, mixture, buffers = _mixture(config, hidden)
    block = Block(
        attention=msgspec.structs.replace(latent.attention, passes=ATTENTIONS),
        mlp=mlp,
        pieces=[*mixture, *(piece for at in range(ATTENTIONS) for piece in _numbered(own, at))],
        buffers=buffers,
    )
    return assemble(config, frame, [block] * frame.num_layers)


def _frame(config: Config) -> Frame:
    """The frame; `num_hidden_layers` counts the attentions, two in each of `num_layers`."""
    total = config.optional("num_hidden_layers")
    layers = config.optional("num_layers") or (total // ATTENTIONS if total else None)
    if layers is None or layers > MAX_LAYERS:
        layers = config.dimension("num_layers", 28, maximum=MAX_LAYERS)
    if total is not None and total // ATTENTIONS != layers:
        config.broken_rule("num_hidden_layers", total, f"num_hidden_layers == {ATTENTIONS} * {layers}")
    return Frame(
        hidden_size=config.dimension("hidden_size", 6144),
        num_layers=layers,
        vocab_size=config.dimension("vocab_size", 131_072),
        max_positions=config.integer("max_position_embeddings", 131_072),
        tied_head=config.flag("tie_word_embeddings", default=False),
    )


def _numbered(pieces: list[Piece], at: int) -> list[Piece]:
    """The tensors of one of the two attentions, by the names they have in lists of modules."""
    named = []
    for name, shape, role in pieces:
        module, _, rest = name.partition(".")
        named.append((f"{module}.{at}.{rest}", shape, role))
    return named


def _mixture(config: Config, hidden: int) -> tuple[Mlp, list[Piece], list[Piece]]:
    """Experts, and zero-computation ones that only the router and the fused input know."""
    width = config.dimension("moe_intermediate_size", 2048)
    experts, chosen = read_experts(config, "n_routed_experts", 512, per_token=12)
    total = experts + (config.optional("zero_expert_num", 256, minimum=0, maximum=MAX_EXPERTS) or 0)
    mlp = Mlp(kind="experts", intermediate_size=width, num_experts=experts, num_experts_per_token=chosen)
    pieces: list[Piece] = [
        *linear("mlp.router.classifier", total, hidden, "router", config.flag("router_bias", default=False)),
        ("mlp.experts.gate_up_proj", (total, 2 * width, hidden), "expert"),
        ("mlp.experts.down_proj", (experts, hidden, width), "expert"),
    ]
    return mlp, pieces, [("mlp.router.e_score_correction_bias", (total,), "router")]
