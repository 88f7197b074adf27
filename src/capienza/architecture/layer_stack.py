"""Models whose layers share their attention's tensors and differ in what feeds forward: an MLP, or experts.

Legend: hidden the width of the residual stream; width that of an MLP or of one expert; shared experts run for
every token.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import msgspec

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import Frame
from capienza.architecture.mixture import PREDICTION_LAYERS
from capienza.architecture.model import Architecture, Attention, Mlp
from capienza.architecture.pieces import Piece, fused_experts, gated_mlp, linear
from capienza.architecture.reading import Config
from capienza.errors import phrase

MLP_TYPES = frozenset({"dense", "sparse"})


class ForwardPart(msgspec.Struct, frozen=True):
    """The feed-forward part of a layer, its tensors and its stored buffers."""

    mlp: Mlp
    pieces: Sequence[Piece]
    buffers: Sequence[Piece] = ()


def dense_part(hidden: int, width: int, *, bias: bool = False) -> ForwardPart:
    """A gated MLP."""
    return ForwardPart(Mlp(kind="dense", intermediate_size=width), gated_mlp(hidden, width, bias=bias))


def plain_part(width: int, pieces: Sequence[Piece], buffers: Sequence[Piece] = ()) -> ForwardPart:
    """An MLP of other tensors."""
    return ForwardPart(Mlp(kind="dense", intermediate_size=width), pieces, buffers)


def mixture_part(
    hidden: int,
    width: int,
    experts: int,
    chosen: int,
    *,
    shared: int = 0,
    router: str = "mlp.gate",
    more: Sequence[Piece] = (),
    correction: str | None = None,
) -> ForwardPart:
    """Fused experts and their router; `more` are the tensors beside them, `correction` the buffer that evens out."""
    mlp = Mlp(
        kind="experts",
        intermediate_size=width,
        num_experts=experts,
        num_experts_per_token=chosen,
        num_shared_experts=shared,
    )
    pieces = [*linear(router, experts, hidden, "router"), *fused_experts(experts, hidden, width), *more]
    return ForwardPart(mlp, pieces, [(correction, (experts,), "router")] if correction else [])


def assemble_stack(
    config: Config,
    frame: Frame,
    attentions: Sequence[Attention],
    common: Sequence[Piece],
    forwards: Sequence[ForwardPart],
    *,
    before: Sequence[Piece] | None = None,
    after: Sequence[Piece] | None = None,
    head: Sequence[Piece] | None = None,
    transposed: Collection[str] = (),
) -> Architecture:
    """A model whose layers all hold the `common` tensors, beside those of their feed-forward part.

    The keyword arguments are those of `assemble`.
    """
    blocks = [
        Block(
            attention=attention,
            mlp=forward.mlp,
            pieces=[*common, *forward.pieces],
            buffers=forward.buffers,
        )
        for attention, forward in zip(attentions, forwards, strict=True)
    ]
    return assemble(config, frame, blocks, before=before, after=after, head=head, transposed=transposed)


def sparse_layers_of(config: Config, num_layers: int, default: Callable[[int], bool]) -> list[bool]:
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


def note_prediction_layers(config: Config) -> None:
    """Name the multi-token prediction layers that a file states; transformers does not build them."""
    extra = config.optional("num_nextn_predict_layers", minimum=0)
    if extra:
        config.notes.append(PREDICTION_LAYERS(count=extra))
