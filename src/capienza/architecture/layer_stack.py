"""Models whose layers share their attention's tensors and differ in what feeds forward: an MLP, or experts."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.forward_parts import Forward
from capienza.architecture.frame import Frame
from capienza.architecture.model import Architecture, Attention, Mlp
from capienza.architecture.pieces import Piece
from capienza.architecture.reading import Config


def plain_part(width: int, pieces: Sequence[Piece], buffers: Sequence[Piece] = ()) -> Forward:
    """An MLP of other tensors."""
    return Forward(Mlp(kind="dense", intermediate_size=width), pieces, buffers)


def assemble_stack(
    config: Config,
    frame: Frame,
    attentions: Sequence[Attention],
    common: Sequence[Piece],
    forwards: Sequence[Forward],
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
