"""What a training holds above its resident memory: forward pass, backward pass, evaluation.

Figures are bytes on one GPU above what is there when a forward pass begins (weights, states, the batch itself), rounded
as PyTorch's allocator rounds. The operations are walked one after the other (`tape`); every distinct layer once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from capienza.allocator.events import ALLOC, FREE, MARK
from capienza.allocator.events import Event as AllocatorEvent
from capienza.architecture.model import Architecture, Layer, Parameter
from capienza.errors import Message
from capienza.predict.training.blocks.build import ITEM, Builder
from capienza.predict.training.blocks.decoder import CACHE, Decoder, losses_of
from capienza.predict.training.completions import of_prompts, prompt_events
from capienza.predict.training.composed import Level, Segment, highest, segments_of
from capienza.predict.training.expanded import NotAlikeError, expanded
from capienza.predict.training.preference import Compared, compared
from capienza.predict.training.releases import litgpt_release
from capienza.predict.training.scope import check_scope, taken_for_granted
from capienza.predict.training.tape import ALLOCATED, FREED, SEGMENT, WORKING, Event, Tape, Tensor, backward
from capienza.recipe.recipe import Recipe

ENTRY = ("forward", "entry")
"""What a microbatch begins with."""
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
    places, like = distinct(architecture.layers, builder.layers)
    program = compared(architecture, recipe, config, places)
    events = training_events(builder.decoder(places), recipe, microbatches_of(recipe), program)
    found: dict[str, Moment] = {}
    level: Level = (0, 0, 0, 0)
    for microbatch in _by_microbatch(events, like):
        for phase in ("forward", "backward"):
            own = [one for one in microbatch if one.name[0] in PARTS[phase]]
            level = _phase(found, phase, level, _whole(own, like))
    evaluation = None
    if recipe.evaluation.microbatch:
        builder.recipe = asked = msgspec.structs.replace(recipe, microbatch=recipe.evaluation.microbatch)
        program = compared(architecture, asked, config, places)
        (seen,) = _by_microbatch(evaluation_events(builder.decoder(places), asked, program), like)
        _phase(found, "eval", (0, 0, 0, 0), _whole(seen, like))
        evaluation = found["eval"]
    return Passes(
        forward=found["forward"],
        backward=found["backward"],
        evaluation=evaluation,
        gradients_bytes=sum(level),
        prefill=_prefill(architecture, recipe, config, places, like),
        assumed=taken_for_granted(architecture, recipe),
    )


def microbatches_of(recipe: Recipe) -> int:
    """How many to walk. Lit-GPT's scripts begin with the longest sample, and it comes once."""
    if recipe.kernels == "litgpt" and not recipe.is_packed and litgpt_release(recipe)[:2] == (0, 0):
        return 1
    return min(recipe.accumulation, MOST_MICROBATCHES)


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
    (seen,) = _by_microbatch(prompt_events(model, asked), like)
    found: dict[str, Moment] = {}
    _phase(found, "prefill", (0, 0, 0, 0), _whole(seen, like))
    return found["prefill"]


def _phase(found: dict[str, Moment], phase: str, start: Level, segments: Iterable[tuple[object, Segment]]) -> Level:
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


def distinct(layers: Sequence[Layer], parts: Sequence[Mapping[str, Parameter]]) -> tuple[list[int], list[int]]:
    """Layers to be walked, and for each layer which of them it is like. The first is like no other: what goes in.

    `parts`: each layer's parameters by name.
    """
    seen: dict[object, int] = {}
    places: list[int] = []
    like: list[int] = []
    for layer in layers:
        own = parts[layer.index]
        names = "\n".join(own).replace(f".{layer.index}.", ".*.")
        shapes = tuple([one.shape for one in own.values()])
        key = (layer.index == 0, layer.attention, layer.state, layer.mlp, names, shapes)
        if key not in seen:
            seen[key] = len(places)
            places.append(layer.index)
        like.append(seen[key])
    return places, like


def _by_microbatch(events: Sequence[Event], like: Sequence[int]) -> list[list[Segment]]:
    """The segments that were walked, of each microbatch."""
    repeats: dict[object, int] = {}
    for one, often in Counter(like).items():
        repeats |= {(phase, one): often for phase in PHASE_OF}
    microbatches: list[list[Segment]] = []
    for segment in segments_of(events, repeats):
        if segment.name == ENTRY:
            microbatches.append([])
        microbatches[-1].append(segment)
    return microbatches


def _whole(walked: Sequence[Segment], like: Sequence[int]) -> Iterator[tuple[object, Segment]]:
    """The segments of a phase, each layer's in its turn, by its own number."""
    by_name = {one.name: one for one in walked}
    done = set()
    for segment in walked:
        phase, part = segment.name
        if not isinstance(part, int):
            yield segment.name, segment
        elif phase not in done:
            done.add(phase)
            for place in range(len(like) - 1, -1, -1) if phase == "backward" else range(len(like)):
                yield (phase, place), by_name[phase, like[place]]


def training_events(
    model: Decoder, recipe: Recipe, count: int, program: Compared | None = None, tape: Tape | None = None
) -> list[Event]:
    """So many microbatches of one update, to where the optimizer's step begins; `program` None: supervised.

    `tape`: an empty one to write on, where the caller wants to know more of it than its events.
    """
    tape = tape or Tape(ITEM[recipe.precision.autocast] if recipe.precision.autocast else None)
    for microbatch in range(count):
        tape.segment(ENTRY)
        loss, outputs = _losses(tape, model, program, is_first=not microbatch)
        tape.segment(("backward", "loss"))
        edge, loss_item = loss.edge, loss.item
        kind, tape.kind = tape.kind, WORKING
        # A model of which nothing is trained has no backward pass.
        if edge is not None:
            backward(tape, edge, tape.new(1, loss_item), tape.bounds)
        tape.kind, tape.bounds = kind, []
        tape.segment(("backward", "graph"))
        del edge, loss, outputs
    tape.names.clear()
    return list(tape.events)


def _losses(tape: Tape, model: Decoder, program: Compared | None, *, is_first: bool) -> tuple[Tensor, Tensor | None]:
    if program is not None:
        return program.run(tape, model, is_first=is_first), None
    with tape.autocasting():
        found = losses_of(tape, model)
        tape.segment(("forward", "exit"))
        tape.names.pop(CACHE, None)
    return found


def evaluation_events(
    model: Decoder, recipe: Recipe, program: Compared | None = None, tape: Tape | None = None
) -> list[Event]:
    """A forward pass of which nothing is kept."""
    tape = tape or Tape(ITEM[recipe.precision.autocast] if recipe.precision.autocast else None)
    tape.is_training = False
    tape.segment(ENTRY)
    with tape.no_grad():
        _losses(tape, model, program, is_first=True)
    tape.names.clear()
    return list(tape.events)


def events(
    architecture: Architecture, recipe: Recipe, config: Mapping[str, Any] | None = None
) -> tuple[list[AllocatorEvent], list[str]]:
    """The allocator's events of one update's passes, and the names of their phases, for `allocator.replay`.

    What is resident is not among them. Blocks are numbered from 0; gradients are alive at the end.
    """
    check_scope(recipe)
    builder = Builder(architecture, recipe, config)
    places, like = distinct(architecture.layers, builder.layers)
    program = compared(architecture, recipe, config, places)
    try:
        return expanded(training_events(builder.decoder(places), recipe, microbatches_of(recipe), program), like, ENTRY)
    except NotAlikeError:
        return walked_events(builder, config)


def walked_events(builder: Builder, config: Mapping[str, Any] | None = None) -> tuple[list[AllocatorEvent], list[str]]:
    """The same, layer by layer."""
    recipe, places = builder.recipe, range(len(builder.layers))
    program = compared(builder.architecture, recipe, config, places)
    return allocator_events(training_events(builder.decoder(places), recipe, microbatches_of(recipe), program))


def allocator_events(tape: Sequence[Event]) -> tuple[list[AllocatorEvent], list[str]]:
    """A tape as the allocator sees it, and the names of its phases."""
    phases: list[str] = []
    made: list[AllocatorEvent] = []
    for code, block, size, _ in tape:
        if code == ALLOCATED:
            made.append((ALLOC, block, size, 0))
        elif code == FREED:
            made.append((FREE, block, 0, 0))
        elif code == SEGMENT and (not phases or block[0] not in PARTS[phases[-1]]):
            phases.append(PHASE_OF[block[0]])
            made.append((MARK, len(phases) - 1, 0, 0))
    return made, phases
