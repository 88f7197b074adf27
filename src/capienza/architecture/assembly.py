"""From blocks to a whole model: every tensor gets its full name and its layer."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from capienza.architecture.frame import Frame
from capienza.architecture.model import Architecture, Attention, Layer, Mlp, Parameter, State
from capienza.architecture.pieces import Piece, norm
from capienza.architecture.reading import Config


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """One layer: what it does, and the tensors it holds."""

    pieces: Sequence[Piece]
    attention: Attention | None = None
    state: State | None = None
    mlp: Mlp | None = None
    buffers: Sequence[Piece] = ()


def assemble(
    config: Config,
    frame: Frame,
    blocks: Sequence[Block],
    *,
    before: Sequence[Piece] | None = None,
    after: Sequence[Piece] | None = None,
    head: Sequence[Piece] | None = None,
    blocks_at: str = "model.layers",
    transposed: Collection[str] = (),
) -> Architecture:
    """Blocks between an embedding and a final norm, with a head unless it is tied.

    `before`, `after` and `head` replace the usual embedding, RMS norm and bias-free head; `transposed` names the
    pieces of a block that are stored [in, out].
    """
    if before is None:
        before = [("model.embed_tokens.weight", (frame.vocab_size, frame.hidden_size), "embedding")]
    if after is None:
        after = norm("model.norm", frame.hidden_size)
    if head is None:
        head = [("lm_head.weight", (frame.vocab_size, frame.hidden_size), "head")]
    if frame.tied_head:  # a head's bias stays its own
        head = [piece for piece in head if not piece[0].endswith(".weight")]
    parameters = [Parameter(*piece) for piece in before]
    buffers: list[Parameter] = []
    for index, block in enumerate(blocks):
        start = f"{blocks_at}.{index}."
        parameters += [
            Parameter(start + name, shape, role, index, name in transposed) for name, shape, role in block.pieces
        ]
        buffers += [Parameter(start + name, shape, role, index) for name, shape, role in block.buffers]
    parameters += [Parameter(*piece) for piece in (*after, *head)]
    layers = [
        Layer(index=index, attention=block.attention, state=block.state, mlp=block.mlp)
        for index, block in enumerate(blocks)
    ]
    return Architecture(
        model_type=config.text("model_type"),
        hidden_size=frame.hidden_size,
        vocab_size=frame.vocab_size,
        max_position_embeddings=frame.max_positions,
        tied_head=frame.tied_head,
        layers=tuple(layers),
        parameters=tuple(parameters),
        buffers=tuple(buffers),
    )
