"""A card's training on one GPU or on one of several: its recipe, what is held, and the entries of its ledger."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from capienza.architecture.model import Architecture, Parameter
from capienza.card.load import place_of
from capienza.card.model import Card
from capienza.card.problems import closest
from capienza.errors import NOTHING, InputError, Message, Place, template, with_suggestion
from capienza.formats.scheme import Scheme
from capienza.ledger.entry import Entry
from capienza.ledger.phase import Phase
from capienza.predict.gpu import GpuFacts
from capienza.predict.model import Model, stored_format
from capienza.predict.training.context import Context, context_on
from capienza.predict.training.from_files import is_sided, of_files
from capienza.predict.training.ledger import phases_of, training_entries
from capienza.predict.training.modules import Piece, pieces
from capienza.predict.training.parallel.ledger import (
    REPLICATED,
    rank_entries,
    unknown_rank_entries,
    weights_formula,
)
from capienza.predict.training.parallel.memory import RankMemory, rank_memory
from capienza.predict.training.parallel.program import WEIGHTS
from capienza.predict.training.passes import Passes, passes
from capienza.predict.training.provable import provable
from capienza.predict.training.reserved import reserved_bytes
from capienza.predict.training.resident import Resident, resident_of
from capienza.predict.training.runtime import workspaces_bytes
from capienza.predict.training.states import OWN_TRAINERS
from capienza.predict.training.trained import ALL_LINEAR, is_saved, is_target
from capienza.predict.weights import SUM_OF_FORMATS
from capienza.recipe.read import recipe_of
from capienza.recipe.recipe import Adapters, Evaluation, Recipe
from capienza.recipe.settle import missing_fields
from capienza.units import Range

FROM_RECIPE = template("training.from-recipe", "layers of {model_type}, in the formats of the training's recipe")
NO_EVALUATION = template(
    "training.no-evaluation-stated",
    "no evaluation is stated, and none is counted; one with the usual microbatch of {microbatch} would hold "
    "{total_bytes} beside what stays",
    "state training.eval_microbatch if the run evaluates",
)
THROUGH_THE_TRACE = template(
    "training.through-the-trace",
    "what {model_type} holds in a pass besides its text hangs on the program and its images or sounds",
    "capienza trace CARD runs image classifiers, Whisper, UNets and Flux.2, through the trace; "
    "other programs go through predict_peak",
)
NO_TARGET = template(
    "training.no-target",
    "no module of the model is called {found}; its linear modules are {accepted}",
    "name some of these, or all-linear",
)
NOT_A_TARGET = template(
    "training.not-a-target",
    "no module of the model is called {found}; the other targets are taken",
    "its linear modules are {accepted}",
)
ALONE = template(
    "training.sharded-alone",
    "{sharding} on one GPU divides nothing: what is gathered is a copy of what is there",
    "state placement.gpus, or delete the sharding",
)
NOT_SAVED = template(
    "training.not-saved",
    "no module of the model is called {found}, so nothing is trained whole by that name",
    "its modules are {accepted}",
)
TOO_LONG = template(
    "training.above-the-models-length",
    "{tokens} tokens are required, and the model is made for {longest}",
    "take a model of that length, or one whose positions were extended; the figures are of the required length",
)
WIDER_SHARDS = template(
    "training.wider-shards",
    "the card's weights are in {base}, and {sharding} holds each GPU's part of them in {held} ({source}): the ledger's "
    "weights are these, and a pass gathers them in {gathered}",
    "state training.trained_dtype: {base} if the program keeps none of it in {held}",
)
RANK_ABOVE = template(
    "training.rank-above",
    "rank {rank} is above the smaller side of {module}, which has {rows} x {columns}",
    "a rank up to {most} makes the pair smaller than the matrix",
)


Side = Literal["none", "passes", "all"]


class TrainingAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a training holds on one GPU beside its weights, and what that rests on.

    `resident`, `passes` and `reserved` are of a GPU alone. Where several share the work (`is_shared`), `rank` is what
    one of them holds; None: this way to share is not covered. `side`: the model sees or hears as well, and what that
    holds in a pass is not in `passes`, or nothing of it is here.
    """

    architecture: Architecture
    recipe: Recipe
    resident: Resident
    passes: Passes | None = None
    reserved: dict[Phase, int] | None = None
    side: Side = "none"
    context: Context | None = None
    gpu_name: str = ""
    cuda_total_bytes: int | None = None
    notes: tuple[Message, ...] = ()
    rank: RankMemory | None = None

    @property
    def is_shared(self) -> bool:
        """Does a library for several GPUs run the training?"""
        return is_shared(self.recipe)

    @property
    def is_computed_shared(self) -> bool:
        """Is it computed what one of the GPUs holds, whatever is sharded or offloaded?"""
        return self.rank is not None

    @property
    def after_bytes(self) -> int | None:
        """What is allocated on each GPU when training has returned; None where that is not known."""
        if not self.is_shared:
            return self.resident.after_bytes
        if self.rank is None:
            return None
        resident = self.resident
        more = resident.workspaces_bytes - workspaces_bytes(None)
        return self.rank.after_bytes + more

    def on(self, gpu: GpuFacts) -> TrainingAnswer:
        """The same on a named GPU: CUDA's context, and cuBLAS's workspaces by its architecture."""
        capabilities = {trait.capability for trait in gpu.traits}
        size = workspaces_bytes(capabilities.pop() if len(capabilities) == 1 else None)
        more = size - self.resident.workspaces_bytes
        reserved = self.reserved and {
            phase: held if phase is Phase.LOAD else held + more for phase, held in self.reserved.items()
        }
        return msgspec.structs.replace(
            self,
            resident=msgspec.structs.replace(self.resident, workspaces_bytes=size),
            reserved=reserved,
            context=context_on(gpu.name.split(), gpu.traits),
            gpu_name=gpu.name,
            cuda_total_bytes=gpu.total_bytes,
        )

    def weights(self, asked: Entry) -> Entry:
        """The weights in the formats that the run holds them in; the floor of what was asked for stays, if lower."""
        base, phases = self.resident.base, phases_of(self.recipe)
        if self.is_shared:
            return msgspec.structs.replace(self._part(asked), phases=phases)
        held = base.weights_bytes
        floor = 0 if asked.amount is None else min(asked.amount.floor, held)
        if asked.amount is not None and asked.amount.expected == held:
            return msgspec.structs.replace(asked, phases=phases)
        parts = " + ".join(f"{amount} ({name})" for name, amount in base.by_format)
        return msgspec.structs.replace(
            asked,
            phases=phases,
            amount=Range(floor, held, held),
            formula=SUM_OF_FORMATS(sum=parts, total=held),
            source=FROM_RECIPE(model_type=self.architecture.model_type),
            inputs=(),
        )

    def _part(self, asked: Entry) -> Entry:
        """This GPU's weights. Whatever the library, some GPU holds an even share; a stated one may prove more."""
        if self.rank is None or asked.amount is None:
            return asked
        held = self.rank.held[Phase.FORWARD].bytes_by_purpose.get(WEIGHTS, 0)
        floor = min(max(0, asked.amount.floor - 1) * _copies_proved(self.recipe) or asked.amount.floor, held)
        return msgspec.structs.replace(
            asked,
            amount=Range(floor, held, held),
            formula=weights_formula(self.rank, self.recipe, held),
            source=FROM_RECIPE(model_type=self.architecture.model_type),
            inputs=(),
        )

    def entries(self, device: str) -> list[Entry]:
        """The entries of one GPU; what rests on a habit and not on the card is not proved from below."""
        if self.is_shared:
            return [provable(entry, self.recipe) for entry in self._of_a_rank(device)]
        made = training_entries(
            self.architecture,
            self.recipe,
            self.resident,
            device,
            passes=self.passes,
            reserved=self.reserved,
            context=self.context,
            gpu_name=self.gpu_name,
            cuda_total_bytes=self.cuda_total_bytes,
            side=self.side,
        )
        return [provable(entry, self.recipe) for entry in made]

    def _of_a_rank(self, device: str) -> list[Entry]:
        phases = phases_of(self.recipe)
        if self.rank is None:
            return unknown_rank_entries(self.recipe, phases, device)
        return rank_entries(
            self.architecture,
            self.recipe,
            self.rank,
            self.resident,
            device,
            phases=phases,
            context=self.context,
            gpu_name=self.gpu_name,
            cuda_total_bytes=self.cuda_total_bytes,
        )


def training_answer(card: Card, model: Model, gpus: int, *, is_replayed: bool = True) -> TrainingAnswer | None:
    """The training of a card; None where the card or the model leaves open what it depends on.

    Without `is_replayed` what the allocator keeps is not computed, and stands as unknown. Raises `InputError` for names
    that the model or the framework does not have, with the card's line.
    """
    whole = of_files(model) if model.architecture is None or is_sided(model) else None
    architecture = model.architecture or whole
    if card.task != "fine-tuning" or architecture is None or not architecture.parameters or missing_fields(card):
        return None
    recipe = recipe_of(card, stored_format(model), architecture.model_type, rest_dtype=model.dtype)
    scheme = None if card.weights.format is not None else model.scheme
    if not architecture.layers and _is_named_otherwise(architecture, recipe):
        return None
    notes = tuple(_checked(card, architecture, recipe))
    if gpus > 1 and not is_shared(recipe):
        # Several GPUs, and nothing says how they share the work.
        return None
    config = model.artifact.config if model.artifact else None
    if not architecture.layers or (is_sided(model) and recipe.images != 0):
        return _with_a_side(architecture, whole, recipe, scheme, config, notes)
    return answer_of(architecture, recipe, scheme, config, notes, is_replayed=is_replayed)


def _with_a_side(
    text: Architecture,
    whole: Architecture | None,
    recipe: Recipe,
    scheme: Scheme | None,
    config: Mapping[str, Any] | None,
    notes: tuple[Message, ...],
) -> TrainingAnswer | None:
    """A training of a model that sees or hears: `whole` has the parameters of its files, `text` describes its text.

    What its other side holds in a pass is unknown: it hangs on the images, which are the program's.
    """
    known = whole or text
    if recipe.adapters is not None and any(_is_folded(one, recipe.adapters) for one in known.parameters):
        return None
    told = THROUGH_THE_TRACE(model_type=text.model_type)
    if text.layers:
        found = answer_of(text, recipe, scheme, config, (*notes, told), is_replayed=False)
    else:
        found = TrainingAnswer(
            architecture=known,
            recipe=recipe,
            resident=resident_of(known, recipe, scheme),
            notes=(*notes, told, *recipe.left_out),
        )
    resident = resident_of(known, recipe, scheme)
    side: Side = "passes" if whole is not None or _sees(known) else "all"
    return msgspec.structs.replace(found, architecture=known, resident=resident, side=side)


def _is_named_otherwise(files: Architecture, recipe: Recipe) -> bool:
    """Is some target no module of the files? Their names may be those of the checkpoint, and not the program's."""
    adapters = recipe.adapters
    if adapters is None or adapters.targets == (ALL_LINEAR,):
        return False
    made = pieces(files, recipe)
    alone = (msgspec.structs.replace(adapters, targets=(target,)) for target in adapters.targets)
    return not all(any(is_target(one, asked) for one in made) for asked in alone)


def _sees(architecture: Architecture) -> bool:
    return any(one.role == "vision" for one in architecture.parameters)


def _is_folded(parameter: Parameter, adapters: Adapters) -> bool:
    """Is it the kernel of a convolution that a target names? Its adapters are convolutions too."""
    module = parameter.name.removesuffix(".weight")
    return len(parameter.shape) > 2 and any(
        module == target or module.endswith(f".{target}") for target in adapters.targets
    )


def answer_of(
    architecture: Architecture,
    recipe: Recipe,
    scheme: Scheme | None = None,
    config: Mapping[str, Any] | None = None,
    notes: tuple[Message, ...] = (),
    *,
    is_replayed: bool = True,
) -> TrainingAnswer:
    """The same for a recipe; `config` is the model's config.json, where it is known.

    Raises `InputError` for a matrix that the format cannot pack.
    """
    resident = resident_of(architecture, recipe, scheme)
    if is_shared(recipe):
        return _rank_answer(architecture, recipe, resident, scheme, config, notes)
    walked, reserved = None, None
    try:
        bare = msgspec.structs.replace(recipe, origins=(), left_out=())
        known = None if config is None else msgspec.json.encode(config)
        walked = _walked(architecture, bare, known)
        reserved = _reserved(architecture, bare, scheme, known) if is_replayed else None
        recipe, told = _without_unstated_evaluation(recipe, walked)
        notes = (*notes, *told, *walked.assumed)
    except InputError as error:
        notes = (*notes, error.message)
    return TrainingAnswer(
        architecture=architecture,
        recipe=recipe,
        resident=resident,
        passes=walked,
        reserved=reserved,
        notes=(*notes, *recipe.left_out),
    )


def _rank_answer(
    architecture: Architecture,
    recipe: Recipe,
    resident: Resident,
    scheme: Scheme | None,
    config: Mapping[str, Any] | None,
    notes: tuple[Message, ...],
) -> TrainingAnswer:
    memory = None
    try:
        if not _says_evaluation(recipe):
            recipe = msgspec.structs.replace(recipe, evaluation=Evaluation(microbatch=0))
        memory = rank_memory(architecture, recipe, scheme, config)
        notes = (*notes, *memory.assumed)
    except InputError as error:
        notes = (*notes, error.message)
    parallel = recipe.parallel
    notes = (*notes, *_wider_shards(recipe))
    if parallel.data_ranks * parallel.tensor_ranks * parallel.pipeline_ranks == 1:
        notes = (*notes, ALONE(sharding=recipe.parallel.sharding))
    return TrainingAnswer(
        architecture=architecture,
        recipe=recipe,
        resident=resident,
        rank=memory,
        notes=(*notes, *recipe.left_out),
    )


def _wider_shards(recipe: Recipe) -> Iterator[Message]:
    """Where a library holds what is trained wider than the card's weights are."""
    precision, parallel = recipe.precision, recipe.parallel
    if recipe.adapters is None and parallel.sharding.startswith("fsdp") and precision.trained != precision.base:
        source = next((one.source for one in recipe.origins if one.field == "precision.trained"), None)
        yield WIDER_SHARDS(
            base=precision.base,
            sharding=parallel.sharding,
            held=precision.trained,
            source=source or NOTHING,
            gathered=parallel.parameter_dtype or precision.trained,
        )


@functools.lru_cache(maxsize=64)
def _walked(architecture: Architecture, recipe: Recipe, config: bytes | None) -> Passes:
    """The passes: alternatives and offers ask for the same ones many times."""
    return passes(architecture, recipe, None if config is None else msgspec.json.decode(config))


@functools.lru_cache(maxsize=64)
def _reserved(
    architecture: Architecture, recipe: Recipe, scheme: Scheme | None, config: bytes | None
) -> dict[Phase, int]:
    """What the passes make the allocator keep."""
    known = None if config is None else msgspec.json.decode(config)
    return reserved_bytes(architecture, recipe, resident_of(architecture, recipe, scheme), scheme, known)


def _without_unstated_evaluation(recipe: Recipe, walked: Passes) -> tuple[Recipe, tuple[Message, ...]]:
    """Transformers' Trainer evaluates only where it is told to: what it would hold by its defaults is a note."""
    moment = walked.evaluation
    if moment is None or _says_evaluation(recipe):
        return recipe, ()
    told = NO_EVALUATION(microbatch=recipe.evaluation.microbatch, total_bytes=moment.total_bytes)
    return msgspec.structs.replace(recipe, evaluation=Evaluation(microbatch=0)), (told,)


def _says_evaluation(recipe: Recipe) -> bool:
    """Does the card, or the framework's own trainer, say that there is one?"""
    stated = {origin.field for origin in recipe.origins if origin.is_stated}
    is_asked = not recipe.origins or any(field.startswith("evaluation.") for field in stated)
    return is_asked or recipe.framework in OWN_TRAINERS


def is_shared(recipe: Recipe) -> bool:
    """Does a library for several GPUs run the training? One GPU alone may run under it too."""
    parallel = recipe.parallel
    return parallel.sharding != "none" or parallel.tensor_ranks * parallel.pipeline_ranks > 1


def _copies_proved(recipe: Recipe) -> int:
    """How many even shares one GPU holds at least, by what the card states of the sharding."""
    stated = {origin.field for origin in recipe.origins if origin.is_stated}
    parallel = recipe.parallel
    if "parallel.sharding" not in stated or parallel.offload == "parameters":
        return 1
    return parallel.data_ranks if parallel.sharding in REPLICATED else parallel.data_ranks // parallel.shard_ranks


def _checked(card: Card, architecture: Architecture, recipe: Recipe) -> Iterator[Message]:
    """Length, targets and rank beside the model's own."""
    longest = architecture.max_position_embeddings
    if longest is not None and recipe.tokens > longest:
        yield TOO_LONG(tokens=recipe.tokens, longest=longest)
    adapters = recipe.adapters
    if adapters is None:
        return
    made = pieces(architecture, recipe)
    modules = tuple(dict.fromkeys(one.module for one in made if one.is_linear and one.role != "embedding"))
    for target in adapters.targets:
        alone = msgspec.structs.replace(adapters, targets=(target,))
        if target == ALL_LINEAR or any(is_target(one, alone) for one in made):
            continue
        if not any(is_target(one, adapters) for one in made):
            key = stated_field(recipe, "adapters.targets") or "training.targets"
            told = NO_TARGET(found=adapters.targets, accepted=modules)
            raise InputError(with_suggestion(told, closest(target, modules)), _place(card, key))
        yield NOT_A_TARGET(found=target, accepted=modules)
    for name in adapters.modules_to_save:
        alone = msgspec.structs.replace(adapters, modules_to_save=(name,))
        if not any(is_saved(one, alone) for one in made):
            yield NOT_SAVED(found=name, accepted=tuple(dict.fromkeys(one.module for one in made if one.module)))
    _check_rank(card, made, recipe, adapters)


def _check_rank(card: Card, made: tuple[Piece, ...], recipe: Recipe, adapters: Adapters) -> None:
    for one in made:
        if is_target(one, adapters) and adapters.rank > min(one.shape):
            rows, columns = one.shape
            told = RANK_ABOVE(rank=adapters.rank, module=one.module, rows=rows, columns=columns, most=min(one.shape))
            raise InputError(told, _place(card, stated_field(recipe, "adapters.rank") or "training.rank"))


def stated_field(recipe: Recipe, field: str) -> str | None:
    """The card's own key behind a field of the recipe: it may be a framework's name. None where the card has none."""
    origin = next((one for one in recipe.origins if one.field == field and one.is_stated), None)
    return None if origin is None else str(origin.source.parameters["field"])


def _place(card: Card, field: str) -> Place:
    return place_of(card.file, field) if card.file else Place(key=field)
