"""`size`: a ledger for a card or a bare model."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import msgspec

from capienza.api.models import model_of
from capienza.card.model import Card, ModelRef, Placement, TokenCount, Tokens, Weights
from capienza.errors import Message, UsageError, template
from capienza.ledger.entry import Entry
from capienza.ledger.held import HeldRow
from capienza.ledger.phase import Phase
from capienza.predict.answer import Sizing, gpu_fit
from capienza.predict.gpu import NO_GPU, GpuFacts
from capienza.predict.resident import rule_notes, rule_outcomes
from capienza.predict.sizing import ask_engine, ask_training, build_ledger
from capienza.predict.storage import volumes_of

if TYPE_CHECKING:
    from capienza.catalog.capability import GpuTraits
    from capienza.catalog.capacity import GpuCapacity
    from capienza.predict.training.answer import TrainingAnswer

CARD_SUFFIXES = (".yaml", ".yml")

FIXED_CARD = template(
    "size.card-is-fixed",
    "{options} cannot be given together with a card: the requirement stays fixed",
    "change the card, or size the bare model",
)
GPU_COUNT = template(
    "size.gpu-count",
    "expected a GPU name, with x and a count for several, got {found}",
    "write for example --gpu 'RTX 4090' or --gpu 'H100 SXM'x8",
)
OTHER_PLACEMENT = template(
    "size.other-placement",
    "--gpu asks for {asked} GPUs, the card places a copy on {stated}: the requirement stays fixed",
    "leave the count out, or change placement in the card",
)
MAX_GPUS = 1024
_COUNT_FIRST = re.compile(r"\s*(?P<count>[0-9]+)\s*x\s*(?P<name>\D.*)", re.ASCII)
_COUNT_LAST = re.compile(r"(?P<name>.*\S)\s*x\s*(?P<count>[0-9]+)\s*", re.ASCII)


def size(
    card_or_model: str | os.PathLike[str] | Card,
    *,
    gpu: str | None = None,
    revision: str | None = None,
    tokens: int | None = None,
    concurrency: int | None = None,
    weights: str | None = None,
) -> Sizing:
    """Compute the ledger of a card (a `.yaml` file or a `Card`) or of a bare model (path or Hub id).

    For a bare model `tokens` is the length of one sequence, `concurrency` the number of sequences (1 when only
    tokens are given) and `weights` a resident format. `gpu` is a GPU name, "H100 SXMx8" for eight of them.

    Raises `UsageError` for options that contradict a card, `InputError` for documents that cannot be used,
    `UnreachableError` when the model is not there.
    """
    options = {"--revision": revision, "--tokens": tokens, "--concurrency": concurrency, "--weights": weights}
    given = tuple(name for name, value in options.items() if value is not None)
    if isinstance(card_or_model, Card) or str(card_or_model).endswith(CARD_SUFFIXES):
        if given:
            raise UsageError(FIXED_CARD(options=given))
        card = read_card(card_or_model)
    else:
        card = bare_card(str(card_or_model), revision, tokens, concurrency, weights)
    model = model_of(card)
    name, asked_gpus = split_gpu(gpu) if gpu is not None else (None, None)
    gpus = gpus_of(card, asked_gpus)
    known = None if name is None else named_gpu(name)
    facts = NO_GPU if name is None or known is None else facts_of(known, named_traits(name))
    answer = ask_engine(card, model, gpus, facts)
    training = ask_training(card, model, gpus)
    sizing = Sizing(
        card=card,
        model=model,
        ledger=build_ledger(card, model, gpus, answer=answer, gpu=facts, training=training),
        answer=answer,
        training=training,
        volumes=volumes_of(card, model, answer),
        rule_notes=rule_notes(rule_outcomes(card, model, facts)) + _lacking(training, facts),
    )
    return sizing if name is None or known is None else _with_gpu(sizing, name, known)


def bare_card(
    model: str, revision: str | None, tokens: int | None, concurrency: int | None, weights: str | None
) -> Card:
    """The card of a model that is sized without one: inference, nothing required but what was asked."""
    is_local = os.path.exists(model) or model.startswith((".", "/", "~"))
    # With a revision it is opened as a Hub id, which refuses a path: local files have no revision to look up.
    reference = ModelRef(path=model) if is_local and revision is None else ModelRef(id=model, revision=revision)
    return Card(
        name=model,
        model=reference,
        task="inference",
        weights=Weights(format=weights),
        tokens=Tokens(required=None if tokens is None else TokenCount(total=tokens)),
        concurrency=1 if concurrency is None and tokens is not None else concurrency,
    )


def _lacking(training: TrainingAnswer | None, gpu: GpuFacts) -> tuple[Message, ...]:
    """What of the recipe the GPU cannot compute."""
    if training is None:
        return ()
    from capienza.recipe.hardware import lacking

    return lacking(training.recipe, [one.capability for one in gpu.traits])


def gpus_of(card: Card, asked: int | None) -> int:
    """The card's placement where it states one (the requirement stays fixed), else the GPUs that were asked for."""
    if not isinstance(card.placement, Placement):
        return asked or 1
    stated = card.gpus_per_copy
    if asked not in (None, stated):
        raise UsageError(OTHER_PLACEMENT(asked=asked, stated=stated))
    return stated


def split_gpu(text: str) -> tuple[str, int | None]:
    """Take "H100 SXMx8", "H100 SXM x 8" or "8 x H100 SXM" as eight of them; "H100 SXM" says no number.

    Raises `UsageError`.
    """
    match = _COUNT_FIRST.fullmatch(text) or _COUNT_LAST.fullmatch(text)
    name, count = (match["name"], match["count"]) if match else (text, None)
    gpus = None if count is None else int(count) if len(count) <= 6 else 0
    if not name.strip() or (gpus is not None and not 1 <= gpus <= MAX_GPUS):
        raise UsageError(GPU_COUNT(found=text))
    return name.strip().strip("'\""), gpus


def read_card(card_or_path: str | os.PathLike[str] | Card) -> Card:
    """The card of a file, or the card itself. Raises `InputErrors` with every problem of the file."""
    if isinstance(card_or_path, Card):
        return card_or_path
    from capienza.card.load import load_card

    return load_card(os.fspath(card_or_path))


def named_gpu(name: str) -> GpuCapacity:
    """What the catalogue knows of a GPU's name. Raises `InputError` for a name that is not known."""
    from capienza.catalog.asked import claim_of
    from capienza.catalog.capacity import capacity_of

    return capacity_of(claim_of(name))


def named_traits(name: str) -> tuple[GpuTraits, ...]:
    """What rules look at of a GPU's name, for each GPU that it may mean. Raises `InputError` for an unknown one."""
    from capienza.catalog.asked import claim_of
    from capienza.catalog.capability import traits_of

    return traits_of(claim_of(name))


def facts_of(gpu: GpuCapacity, traits: tuple[GpuTraits, ...]) -> GpuFacts:
    """What an engine's defaults and its share of the card go by; CUDA's total is estimated where none was collected."""
    name = " ".join(gpu.candidates)
    if gpu.cuda_total_bytes is not None or gpu.smallest_bytes is None:
        return GpuFacts(gpu.cuda_total_bytes, name, traits=traits)
    from capienza.catalog.devices import usual_cuda_share

    total = int(gpu.smallest_bytes * usual_cuda_share())
    return GpuFacts(total, name, is_estimated=True, traits=traits)


def _with_gpu(sizing: Sizing, name: str, gpu: GpuCapacity) -> Sizing:
    from capienza.ledger.capacity import capacity_from, for_training

    card = sizing.card
    others = card.host.others_use_bytes if card.host is not None and card.host != "none" else None
    capacity = capacity_from(gpu, others or 0)
    capacity = for_training(capacity) if card.task == "fine-tuning" else capacity
    fit = gpu_fit(sizing.ledger, capacity, margin_bytes(card), name, gpu.candidates, sizing.answer)
    return msgspec.structs.replace(sizing, fit=fit)


def margin_bytes(card: Card) -> int:
    """The margin that the card states; none stated is none added, and memory is then never admissible."""
    return card.margin.amount_bytes if card.margin else 0


def held_rows(sizing: Sizing, entries: tuple[Entry, ...]) -> dict[Phase, tuple[HeldRow, ...]]:
    """The tensors behind entries of a pass on a GPU alone, by phase; empty for any other entry."""
    from capienza.predict.training.held import KINDS, held_at_most

    training = sizing.training
    if training is None or training.passes is None or training.is_shared or not entries or entries[0].name not in KINDS:
        return {}
    config = sizing.model.artifact.config if sizing.model.artifact is not None else None
    walked = (Phase.FORWARD, Phase.BACKWARD, Phase.EVAL)
    return {
        phase: held_at_most(training.architecture, training.recipe, str(phase), entries[0].name, config)
        for entry in entries
        for phase in entry.phases
        if phase in walked and entry.amount is not None
    }
