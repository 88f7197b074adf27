"""Forward and backward pass of one microbatch."""

from __future__ import annotations

from capienza.architecture.model import Architecture
from capienza.predict.training.blocks.build import ITEM, Builder
from capienza.predict.training.blocks.decoder import losses_of
from capienza.predict.training.operations import FP32
from capienza.predict.training.tape import GRADIENTS, SEGMENT, Block, Tape, Tensor, backward
from capienza.recipe.recipe import Recipe


def run(architecture: Architecture, recipe: Recipe, places: list[int] | None = None) -> Tape:
    """One microbatch."""
    builder = Builder(architecture, recipe)
    model = builder.decoder(places if places is not None else list(range(len(architecture.layers))))
    tape = Tape(ITEM[recipe.precision.autocast] if recipe.precision.autocast else None)
    tape.segment(("forward", "first"))
    with tape.autocasting():
        loss = losses_of(tape, model)
        tape.segment(("forward", "exit"))
    tape.segment(("backward", "loss"))
    edge = loss.edge
    assert edge is not None
    tape.kind = 3
    backward(tape, edge, tape.new(1, FP32))
    tape.segment(("backward", "end"))
    return tape
