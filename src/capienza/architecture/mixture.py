"""Models whose first layers are dense and whose later ones hold experts beside shared ones (DeepSeek's layout)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import Frame
from capienza.architecture.model import Architecture, Attention, Mlp
from capienza.architecture.pieces import Piece, fused_experts, gated_mlp, layer_norms, linear, read_experts
from capienza.architecture.reading import MAX_EXPERTS, Config
from capienza.errors import phrase, template

PREDICTION_LAYERS = template(
    "architecture.prediction-layers",
    "{count} multi-token prediction layer(s) are not counted: the weights are at least this, and the files may hold"
    " more",
    "An engine that drafts with them needs their weights and their cache on top.",
)


def assemble_mixture(
    config: Config,
    frame: Frame,
    attention: Attention,
    attention_pieces: Sequence[Piece],
    *,
    intermediate_size: int,
    moe_intermediate_size: int,
    n_routed_experts: int,
    n_shared_experts: int,
    num_experts_per_tok: int | None,
    first_k_dense_replace: int,
    mlp_bias: bool = False,
    correction: bool = False,
) -> Architecture:
    """A model with the same attention in all layers, and experts from `first_k_dense_replace` on.

    The numbers are the defaults of the config class. `correction` adds the buffer that evens out the load of the
    experts.
    """
    hidden = frame.hidden_size
    dense = config.dimension("intermediate_size", intermediate_size)
    sparse = config.dimension("moe_intermediate_size", moe_intermediate_size)
    experts, chosen = read_experts(config, "n_routed_experts", n_routed_experts, per_token=num_experts_per_tok)
    shared = config.integer("n_shared_experts", n_shared_experts, minimum=0, maximum=MAX_EXPERTS)
    _refuse_gaps(config)
    common = [*attention_pieces, *layer_norms(hidden)]
    first = Block(
        attention=attention,
        mlp=Mlp(kind="dense", intermediate_size=dense),
        pieces=[*common, *gated_mlp(hidden, dense, bias=mlp_bias)],
    )
    later = Block(
        attention=attention,
        mlp=Mlp(
            kind="experts",
            intermediate_size=sparse,
            num_experts=experts,
            num_experts_per_token=chosen,
            num_shared_experts=shared,
        ),
        pieces=[
            *common,
            *linear("mlp.gate", experts, hidden, "router"),
            *fused_experts(experts, hidden, sparse),
            *gated_mlp(hidden, shared * sparse, bias=mlp_bias, name="mlp.shared_experts"),
        ],
        buffers=[("mlp.gate.e_score_correction_bias", (experts,), "router")] if correction else [],
    )
    count = min(config.integer("first_k_dense_replace", first_k_dense_replace, minimum=0), frame.num_layers)
    architecture = assemble(config, frame, [first] * count + [later] * (frame.num_layers - count))
    return msgspec.structs.replace(architecture, prediction_layers=_prediction_layers(config))


def _refuse_gaps(config: Config) -> None:
    """Dense layers among the experts are not understood."""
    frequency = config.optional("moe_layer_freq")
    if frequency not in (None, 1):
        direction = phrase("with dense layers among the experts the weights would come out too large")
        config.not_understood("moe_layer_freq", frequency, "1", direction)


def _prediction_layers(config: Config) -> int:
    """Prediction layers are named and left out."""
    extra = config.optional("num_nextn_predict_layers", minimum=0) or 0
    if extra:
        config.notes.append(PREDICTION_LAYERS(count=extra))
    return extra
