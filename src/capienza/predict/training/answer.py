"""A card's training on one GPU: its recipe, what is resident, what the passes hold, and the entries of its ledger."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from capienza.architecture.model import Architecture
from capienza.card.load import place_of
from capienza.card.model import Card, Placement
from capienza.errors import InputError, Message, Place, template
from capienza.formats.scheme import Scheme
from capienza.ledger.entry import Entry
from capienza.ledger.phase import Phase
from capienza.predict.gpu import GpuFacts
from capienza.predict.model import Model, stored_format
from capienza.predict.training.context import Context, context_on
from capienza.predict.training.ledger import phases_of, training_entries
from capienza.predict.training.modules import Piece, pieces
from capienza.predict.training.passes import Passes, passes
from capienza.predict.training.provable import provable
from capienza.predict.training.reserved import reserved_bytes
from capienza.predict.training.resident import Resident, resident_of
from capienza.predict.training.runtime import workspaces_bytes
from capienza.predict.training.states import OWN_TRAINERS
from capienza.predict.training.trained import ALL_LINEAR, is_target
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
RANK_ABOVE = template(
    "training.rank-above",
    "rank {rank} is above the smaller side of {module}, which has {rows} x {columns}",
    "a rank up to {most} makes the pair smaller than the matrix",
)


class TrainingAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a training holds on one GPU beside its weights, and what that rests on."""

    architecture: Architecture
    recipe: Recipe
    resident: Resident
    passes: Passes | None = None
    reserved: dict[Phase, int] | None = None
    context: Context | None = None
    gpu_name: str = ""
    cuda_total_bytes: int | None = None
    notes: tuple[Message, ...] = ()

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
            context=context_on(gpu.name.split()),
            gpu_name=gpu.name,
            cuda_total_bytes=gpu.total_bytes,
        )

    def weights(self, asked: Entry) -> Entry:
        """The weights in the formats that the run holds them in; the floor of what was asked for stays, if lower."""
        base, phases = self.resident.base, phases_of(self.recipe)
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

    def entries(self, device: str) -> list[Entry]:
        """The entries of one GPU; what rests on a habit and not on the card is not proved from below."""
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
        )
        return [provable(entry, self.recipe) for entry in made]


def training_answer(card: Card, model: Model, gpus: int) -> TrainingAnswer | None:
    """The training of a card; None where the card or the model leaves open what it depends on, or it has several GPUs.

    Raises `InputError` for names that the model or the framework does not have, with the card's line.
    """
    architecture = model.architecture
    if card.task != "fine-tuning" or architecture is None or not architecture.parameters or missing_fields(card):
        return None
    recipe = recipe_of(card, stored_format(model), architecture.model_type, rest_dtype=model.dtype)
    scheme = None if card.weights.format is not None else model.scheme
    notes = tuple(_checked(card, architecture, recipe))
    if gpus > 1 or _copies(card) > 1:
        return None
    config = model.artifact.config if model.artifact else None
    return answer_of(architecture, recipe, scheme, config, notes)


def answer_of(
    architecture: Architecture,
    recipe: Recipe,
    scheme: Scheme | None = None,
    config: Mapping[str, Any] | None = None,
    notes: tuple[Message, ...] = (),
) -> TrainingAnswer:
    """The same for a recipe; `config` is the model's config.json, where it is known.

    Raises `InputError` for a matrix that the format cannot pack.
    """
    resident = resident_of(architecture, recipe, scheme)
    walked, reserved = None, None
    try:
        bare = msgspec.structs.replace(recipe, origins=(), left_out=())
        walked, reserved = _walked(architecture, bare, scheme, None if config is None else msgspec.json.encode(config))
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


@functools.lru_cache(maxsize=64)
def _walked(
    architecture: Architecture, recipe: Recipe, scheme: Scheme | None, config: bytes | None
) -> tuple[Passes, dict[Phase, int]]:
    """The passes, and what they make the allocator keep: alternatives and offers ask for the same ones many times."""
    known = None if config is None else msgspec.json.decode(config)
    walked = passes(architecture, recipe, known)
    return walked, reserved_bytes(architecture, recipe, resident_of(architecture, recipe, scheme), scheme, known)


def _without_unstated_evaluation(recipe: Recipe, walked: Passes) -> tuple[Recipe, tuple[Message, ...]]:
    """Transformers' Trainer evaluates only where it is told to: what it would hold by its defaults is a note."""
    stated = {origin.field for origin in recipe.origins if origin.is_stated}
    moment = walked.evaluation
    is_asked = not recipe.origins or any(field.startswith("evaluation.") for field in stated)
    if moment is None or is_asked or recipe.framework in OWN_TRAINERS:
        return recipe, ()
    told = NO_EVALUATION(microbatch=recipe.evaluation.microbatch, total_bytes=moment.total_bytes)
    return msgspec.structs.replace(recipe, evaluation=Evaluation(microbatch=0)), (told,)


def _copies(card: Card) -> int:
    return card.placement.data_parallel if isinstance(card.placement, Placement) else 1


def _checked(card: Card, architecture: Architecture, recipe: Recipe) -> Iterator[Message]:
    """Targets and rank beside the model's own modules."""
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
            raise InputError(NO_TARGET(found=adapters.targets, accepted=modules), _place(card, "training.targets"))
        yield NOT_A_TARGET(found=target, accepted=modules)
    _check_rank(card, made, adapters)


def _check_rank(card: Card, made: tuple[Piece, ...], adapters: Adapters) -> None:
    for one in made:
        if is_target(one, adapters) and adapters.rank > min(one.shape):
            rows, columns = one.shape
            told = RANK_ABOVE(rank=adapters.rank, module=one.module, rows=rows, columns=columns, most=min(one.shape))
            raise InputError(told, _place(card, "training.rank"))


def _place(card: Card, field: str) -> Place:
    return place_of(card.file, field) if card.file else Place(key=field)
