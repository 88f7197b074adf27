"""What a training holds above its resident memory: forward pass, backward pass, evaluation.

Figures are bytes on one GPU above what is there when a forward pass begins (weights, states, the batch itself), rounded
as PyTorch's allocator rounds. The operations are walked one after the other (`tape`); every distinct layer once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from capienza.allocator.events import ALLOC, FREE, MARK
from capienza.allocator.events import Event as AllocatorEvent
from capienza.architecture.model import Architecture
from capienza.errors import Message
from capienza.predict.training.blocks.build import ITEM, Builder
from capienza.predict.training.blocks.decoder import Decoder, losses_of
from capienza.predict.training.completions import of_prompts, prompt_events
from capienza.predict.training.composed import Level, Segment, highest, segments_of
from capienza.predict.training.preference import Compared, compared
from capienza.predict.training.scope import check_scope, taken_for_granted
from capienza.predict.training.tape import ALLOCATED, FREED, SEGMENT, WORKING, Event, Tape, Tensor, backward
from capienza.recipe.recipe import Recipe

PARTS = {"forward": ("forward", "reference"), "backward": ("backward",)}
"""What of the program belongs to a phase: a reference model runs forward."""
PHASE_OF = {part: phase for phase, parts in PARTS.items() for part in parts}
MOST_MICROBATCHES = 2
"""Of an update's microbatches: the second finds gradients there, and so do all after it."""


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """What is alive when most is, in one phase. `where`: the part of the program, a layer's number or a name."""

    activations_bytes: int
    logits_bytes: int
    gradients_bytes: int
    working_bytes: int
    where: str

    @property
    def total_bytes(self) -> int:
        """All of it."""
        return self.activations_bytes + self.logits_bytes + self.gradients_bytes + self.working_bytes


class Passes(msgspec.Struct, frozen=True, kw_only=True):
    """The moments of one update's passes. `gradients_bytes`: what is there when they end.

    `prefill`: prompts of an update go through the model that writes their completions.

    `assumed`: what was taken for granted of the model's code.
    """

    forward: Moment
    backward: Moment
    evaluation: Moment | None
    gradients_bytes: int
    prefill: Moment | None = None
    assumed: tuple[Message, ...] = ()


def passes(architecture: Architecture, recipe: Recipe, config: Mapping[str, Any] | None = None) -> Passes:
    """The highest moment of each phase. `config`: the model's config.json, where it is known.

    Raises `InputError` for a model or a recipe with a part that is not covered.
    """
    check_scope(recipe)
    builder = Builder(architecture, recipe, config)
    places, like = distinct(architecture)
    count = min(recipe.accumulation, MOST_MICROBATCHES)
    events = training_events(builder.decoder(places), recipe, count, compared(architecture, recipe, config, places))
    found: dict[str, Moment] = {}
    level: Level = (0, 0, 0, 0)
    for microbatch in _expanded(events, like, count):
        for phase in ("forward", "backward"):
            level = _phase(found, phase, level, [one for one in microbatch if one.name[0] in PARTS[phase]])
    evaluation = None
    if recipe.evaluation.microbatch:
        asked = msgspec.structs.replace(recipe, microbatch=recipe.evaluation.microbatch)
        model = Builder(architecture, asked, config).decoder(places)
        (seen,) = _expanded(evaluation_events(model, asked, compared(architecture, asked, config, places)), like, 1)
        _phase(found, "eval", (0, 0, 0, 0), seen)
        evaluation = found["eval"]
    return Passes(
        forward=found["forward"],
        backward=found["backward"],
        evaluation=evaluation,
        gradients_bytes=sum(level),
        prefill=_prefill(architecture, recipe, config, places, like),
        assumed=taken_for_granted(architecture, recipe),
    )


def _prefill(
    architecture: Architecture,
    recipe: Recipe,
    config: Mapping[str, Any] | None,
    places: Sequence[int],
    like: Sequence[int],
) -> Moment | None:
    asked = of_prompts(recipe)
    if asked is None:
        return None
    model = Builder(architecture, asked, config).decoder(places)
    (seen,) = _expanded(prompt_events(model, asked), like, 1)
    found: dict[str, Moment] = {}
    _phase(found, "prefill", (0, 0, 0, 0), seen)
    return found["prefill"]


def _phase(found: dict[str, Moment], phase: str, start: Level, segments: Sequence[Segment]) -> Level:
    best, where, level = highest(start, segments)
    activations, logits, gradients, working = _settled(best)
    moment = Moment(
        activations_bytes=activations,
        logits_bytes=logits,
        gradients_bytes=gradients,
        working_bytes=working,
        where=str(where[1]) if isinstance(where, tuple) else "",
    )
    if phase not in found or moment.total_bytes > found[phase].total_bytes:
        found[phase] = moment
    return level


def _settled(level: Level) -> Level:
    """A repeated layer frees a block of the kind its first like found: kinds may be off, their sum not."""
    sizes = list(level)
    for kind, size in enumerate(sizes):
        if size < 0:
            sizes[max(range(len(sizes)), key=sizes.__getitem__)] += size
            sizes[kind] = 0
    first, second, third, fourth = sizes
    return first, second, third, fourth


def distinct(architecture: Architecture) -> tuple[list[int], list[int]]:
    """Layers to be walked, and for each layer which of them it is like. The first is like no other: what goes in."""
    parts: list[list[object]] = [[] for _ in architecture.layers]
    for one in architecture.parameters:
        if one.layer is not None and one.layer < len(parts):
            parts[one.layer].append((one.name.partition(f".{one.layer}.")[2], one.shape))
    seen: dict[object, int] = {}
    places: list[int] = []
    like: list[int] = []
    for layer in architecture.layers:
        key = (layer.index == 0, layer.attention, layer.state, layer.mlp, tuple(parts[layer.index]))
        if key not in seen:
            seen[key] = len(places)
            places.append(layer.index)
        like.append(seen[key])
    return places, like


def _expanded(events: Sequence[Event], like: Sequence[int], count: int) -> list[list[Segment]]:
    """The segments of every microbatch, each layer's in its turn, named by its own number."""
    repeats: dict[object, int] = {}
    for one in like:
        for phase in ("forward", "reference", "backward"):
            repeats[(phase, one)] = repeats.get((phase, one), 0) + 1
    microbatches: list[list[Segment]] = [[] for _ in range(count)]
    place = -1
    for segment in segments_of(events, repeats):
        place += segment.name == ("forward", "entry")
        microbatches[place].append(segment)
    return [_whole(one, like) for one in microbatches]


def _whole(walked: Sequence[Segment], like: Sequence[int]) -> list[Segment]:
    by_name = {one.name: one for one in walked}
    whole: list[Segment] = []
    done = set()
    for segment in walked:
        phase, part = segment.name
        if not isinstance(part, int):
            whole.append(segment)
        elif phase not in done:
            done.add(phase)
            order = range(len(like) - 1, -1, -1) if phase == "backward" else range(len(like))
            whole += [msgspec.structs.replace(by_name[phase, like[at]], name=(phase, at)) for at in order]
    return whole


def training_events(model: Decoder, recipe: Recipe, count: int, program: Compared | None = None) -> list[Event]:
    """So many microbatches of one update, to where the optimizer's step begins; `program` None: supervised."""
    tape = Tape(ITEM[recipe.precision.autocast] if recipe.precision.autocast else None)
    for microbatch in range(count):
        tape.segment(("forward", "entry"))
        loss, outputs = _losses(tape, model, program, is_first=not microbatch)
        tape.segment(("backward", "loss"))
        edge, loss_item = loss.edge, loss.item
        kind, tape.kind = tape.kind, WORKING
        # A model of which nothing is trained has no backward pass.
        if edge is not None:
            backward(tape, edge, tape.new(1, loss_item), tape.bounds)
        tape.kind, tape.bounds = kind, []
        del edge, loss, outputs
    return list(tape.events)


def _losses(tape: Tape, model: Decoder, program: Compared | None, *, is_first: bool) -> tuple[Tensor, Tensor | None]:
    if program is not None:
        return program.run(tape, model, is_first=is_first), None
    with tape.autocasting():
        found = losses_of(tape, model)
        tape.segment(("forward", "exit"))
    return found


def evaluation_events(model: Decoder, recipe: Recipe, program: Compared | None = None) -> list[Event]:
    """A forward pass of which nothing is kept."""
    tape = Tape(ITEM[recipe.precision.autocast] if recipe.precision.autocast else None)
    tape.is_training = False
    tape.segment(("forward", "entry"))
    with tape.no_grad():
        _losses(tape, model, program, is_first=True)
    return list(tape.events)


def events(
    architecture: Architecture, recipe: Recipe, config: Mapping[str, Any] | None = None
) -> tuple[list[AllocatorEvent], list[str]]:
    """The allocator's events of one update's passes, and the names of their phases, for `allocator.replay`.

    What is resident is not among them. Blocks are numbered from 0; gradients are alive at the end.
    """
    check_scope(recipe)
    builder = Builder(architecture, recipe, config)
    places = list(range(len(architecture.layers)))
    model, program = builder.decoder(places), compared(architecture, recipe, config, places)
    phases: list[str] = []
    made: list[AllocatorEvent] = []
    for code, block, size, _ in training_events(model, recipe, min(recipe.accumulation, MOST_MICROBATCHES), program):
        if code == ALLOCATED:
            made.append((ALLOC, block, size, 0))
        elif code == FREED:
            made.append((FREE, block, 0, 0))
        elif code == SEGMENT and (not phases or block[0] not in PARTS[phases[-1]]):
            phases.append(PHASE_OF[block[0]])
            made.append((MARK, len(phases) - 1, 0, 0))
    return made, phases
