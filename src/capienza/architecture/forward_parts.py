"""The feed-forward part of a layer, dense or a mixture of experts, and which layers hold which.

Legend: shared experts run for every token; the correction is the buffer that evens out the load of the experts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from capienza.architecture.assembly import Block
from capienza.architecture.mixture import PREDICTION_LAYERS
from capienza.architecture.model import Attention, Mlp, State
from capienza.architecture.pieces import Piece, fused_experts, gated_mlp, layer_norms, linear, read_experts
from capienza.architecture.reading import MAX_EXPERTS, Config
from capienza.errors import phrase

CORRECTION = "mlp.gate.e_score_correction_bias"
MLP_TYPES = frozenset({"dense", "sparse"})


class Forward(msgspec.Struct, frozen=True):
    """The feed-forward part of a layer, its tensors and its stored buffers."""

    mlp: Mlp
    pieces: Sequence[Piece]
    buffers: Sequence[Piece] = ()


def dense_forward(hidden: int, width: int, *, bias: bool = False, name: str = "mlp") -> Forward:
    """A gated MLP."""
    return Forward(Mlp(kind="dense", intermediate_size=width), gated_mlp(hidden, width, bias=bias, name=name))


def sparse_forward(
    hidden: int,
    width: int,
    experts: int,
    chosen: int,
    *,
    router: str = "mlp.gate",
    shared: int = 0,
    shared_pieces: Sequence[Piece] = (),
    correction: str | None = None,
) -> Forward:
    """Routed experts, with the tensors of the shared ones; `correction` names the buffer, where there is one."""
    mlp = Mlp(
        kind="experts",
        intermediate_size=width,
        num_experts=experts,
        num_experts_per_token=chosen,
        num_shared_experts=shared,
    )
    pieces = [
        *linear(router, experts, hidden, "router"),
        *fused_experts(experts, hidden, width),
        *shared_pieces,
    ]
    return Forward(mlp, pieces, [(correction, (experts,), "router")] if correction else [])


def read_deepseek_experts(
    config: Config,
    hidden: int,
    *,
    moe_intermediate_size: int,
    n_routed_experts: int,
    n_shared_experts: int | None,
    num_experts_per_tok: int,
    experts_key: str = "n_routed_experts",
) -> Forward:
    """Experts under DeepSeek's keys, with shared ones unless None; the numbers are the class defaults."""
    width = config.dimension("moe_intermediate_size", moe_intermediate_size)
    experts, chosen = read_experts(config, experts_key, n_routed_experts, per_token=num_experts_per_tok)
    if n_shared_experts is None:
        return sparse_forward(hidden, width, experts, chosen, correction=CORRECTION)
    shared = config.integer("n_shared_experts", n_shared_experts, minimum=0, maximum=MAX_EXPERTS)
    beside = gated_mlp(hidden, shared * width, name="mlp.shared_experts")
    return sparse_forward(hidden, width, experts, chosen, shared=shared, shared_pieces=beside, correction=CORRECTION)


def sparse_flags(config: Config, num_layers: int, default: Callable[[int], bool]) -> list[bool]:
    """Which layers hold experts: as `mlp_layer_types` says, else by the rule of the config class."""
    stated = config.texts("mlp_layer_types")
    if stated is None:
        return [default(index) for index in range(num_layers)]
    if len(stated) != num_layers:
        config.broken_rule("mlp_layer_types", stated, f"len(mlp_layer_types) == {num_layers}")
    for index, kind in enumerate(stated):
        if kind not in MLP_TYPES:
            direction = phrase("another kind of layer may hold more weights, or fewer")
            config.not_understood(f"mlp_layer_types[{index}]", kind, ", ".join(sorted(MLP_TYPES)), direction)
    return [kind == "sparse" for kind in stated]


def late_experts(config: Config, *, first: int, periodic: bool = False) -> Callable[[int], bool]:
    """Experts from layer `first_k_dense_replace` on; with `periodic` only in every `moe_layer_freq`-th."""
    start = config.integer("first_k_dense_replace", first, minimum=0)
    period = (config.optional("moe_layer_freq") or 1) if periodic else 1
    return lambda index: index >= start and index % period == 0


def note_prediction_layers(config: Config, key: str = "num_nextn_predict_layers", default: int = 0) -> None:
    """Name the multi-token prediction layers, which are left out."""
    extra = config.optional(key, default or None, minimum=0)
    if extra:
        config.notes.append(PREDICTION_LAYERS(count=extra))


def layer_block(
    hidden: int,
    forward: Forward,
    mixing: Sequence[Piece],
    *,
    attention: Attention | None = None,
    state: State | None = None,
    norms: Sequence[Piece] | None = None,
    buffers: Sequence[Piece] = (),
) -> Block:
    """One layer from what mixes its tokens, its feed-forward part and its norms; the usual two unless others."""
    return Block(
        attention=attention,
        state=state,
        mlp=forward.mlp,
        pieces=[*mixing, *forward.pieces, *(layer_norms(hidden) if norms is None else norms)],
        buffers=[*buffers, *forward.buffers],
    )
