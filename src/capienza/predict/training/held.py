"""What is alive at a pass's highest moment, tensor by tensor, so that an entry of the ledger can be checked by hand.

Legend: a row is so many tensors of one size that one operation of one part of the program made; `layers` of them are
alike, and each holds `num_each`. Bytes are rounded to the allocator's granule of 512 B, as in the entry. Every layer is
walked here, not one of each kind: rows and entry come about in two ways and have to agree.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from capienza.architecture.model import Architecture
from capienza.ledger.held import HeldRow
from capienza.predict.training.blocks.build import ITEM, Builder
from capienza.predict.training.passes import PARTS, evaluation_events, microbatches_of, training_events
from capienza.predict.training.preference import compared
from capienza.predict.training.tape import ALLOCATED, FREED, RENAMED, SEGMENT, Event, Tape, Tensor
from capienza.recipe.recipe import Recipe

KINDS = ("activations", "logits_and_loss", "gradients", "pass_temporaries")
"""Entries by the kind of their blocks (`tape`)."""
ROOM = str(Path(__file__).parent)
BLOCKS = str(Path(__file__).parent / "blocks")
OUTER = "decoder"
LAYER = "layer"
"""The part of rows that are of the model's layers."""


class _Noted(Tape):
    """A tape that remembers of every block what made it."""

    def __init__(self, autocast: int | None) -> None:
        super().__init__(autocast)
        self.made: list[tuple[str, int, int, object]] = []
        self.part: object = ""

    def new(self, elements: int, item: int, kind: int | None = None) -> Tensor:
        self.made.append((_maker(), elements, item, self.part))
        return super().new(elements, item, kind)

    def segment(self, name: object) -> None:
        self.part = name[1] if isinstance(name, tuple) else name
        super().segment(name)


def held_at_most(
    architecture: Architecture, recipe: Recipe, phase: str, entry: str, config: Mapping[str, Any] | None = None
) -> tuple[HeldRow, ...]:
    """The tensors of an entry (one of `KINDS`) when a phase (forward, backward, eval) holds most, the largest first."""
    if phase == "eval":
        recipe = msgspec.structs.replace(recipe, microbatch=recipe.evaluation.microbatch)
    builder = Builder(architecture, recipe, config)
    places = range(len(builder.layers))
    program = compared(architecture, recipe, config, places)
    tape = _Noted(ITEM[recipe.precision.autocast] if recipe.precision.autocast else None)
    if phase == "eval":
        events = evaluation_events(builder.decoder(places), recipe, program, tape)
    else:
        events = training_events(builder.decoder(places), recipe, microbatches_of(recipe), program, tape)
    live = _live(events, PARTS.get(phase, ("forward", "reference")))
    wanted = KINDS.index(entry)
    counts: dict[tuple[str, str, int, int, int], dict[object, int]] = {}
    for number, (size, kind) in live.items():
        if kind == wanted:
            maker, elements, item, part = tape.made[number]
            key = (LAYER if isinstance(part, int) else str(part), maker, elements, item, size)
            layers = counts.setdefault(key, {})
            layers[part] = layers.get(part, 0) + 1
    rows = [row for key, layers in counts.items() for row in _rows(key, layers, recipe.rows_tokens)]
    return tuple(sorted(rows, key=lambda one: -one.total_bytes))


def _rows(key: tuple[str, str, int, int, int], layers: Mapping[object, int], tokens: int) -> list[HeldRow]:
    """One row for all layers that hold as many of them."""
    part, operation, elements, item, size = key
    shape = (tokens, elements // tokens) if elements % tokens == 0 and elements > tokens else (elements,)
    return [
        HeldRow(
            part=part,
            operation=operation,
            shape=shape,
            item_bytes=item,
            each_bytes=size,
            num_each=each,
            layers=sum(1 for one in layers.values() if one == each),
        )
        for each in sorted(set(layers.values()))
    ]


def _live(events: Sequence[Event], parts: Sequence[str]) -> dict[int, tuple[int, int]]:
    """Size and kind of the blocks that are alive at the highest moment of those parts of the program."""
    best, best_at = -1, 0
    total, is_inside = 0, False
    sizes: dict[int, int] = {}
    for at, (code, block, size, _) in enumerate(events):
        if code == SEGMENT:
            is_inside = block[0] in parts
        elif code == ALLOCATED:
            sizes[block] = size
            total += size
        elif code == FREED:
            total -= sizes.pop(block)
        if is_inside and total > best:
            best, best_at = total, at
    live: dict[int, tuple[int, int]] = {}
    for code, block, size, kind in events[: best_at + 1]:
        if code == ALLOCATED:
            live[block] = (size, kind)
        elif code == FREED:
            del live[block]
        elif code == RENAMED and block in live:
            live[block] = (live[block][0], kind)
    return live


def _maker() -> str:
    """The part of the program that asks for a tensor and the operation in it, by the names of this package's rooms."""
    frame: Any = sys._getframe(2)
    operation, part = frame.f_code.co_name.strip("_"), ""
    if operation == "<lambda>":
        operation = "gradient"
    while frame is not None and ROOM in frame.f_code.co_filename:
        stem = Path(frame.f_code.co_filename).stem
        if BLOCKS in frame.f_code.co_filename:
            if stem == OUTER:
                break
            # A linear layer inside another part is one operation, whatever its function is called.
            operation, part = (part if part and part != stem else operation), stem
        frame = frame.f_back
    return f"{part}.{operation}" if part and part != operation else operation
