"""What is predicted of one configuration: peaks by phase, fit word, the engine's pool, and what rules refuse.

Of several GPUs each figure is that of the fullest one. An engine with a pool takes a share of the card whatever the
load: its peaks are what the load needs, and beside them stands what it takes (`budget_bytes`) and keeps for the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import TYPE_CHECKING

import msgspec

from capienza.card.model import Card
from capienza.catalog.offer import GpuClaim
from capienza.catalog.outcome import Outcome
from capienza.decide.alternatives.gpu import Gpu
from capienza.decide.case import Sizing
from capienza.decide.need import model_name, needs_of
from capienza.errors import Message
from capienza.evidence.record import Scope
from capienza.ledger.capacity import FitWord, exceeds, fit_word, useful_margin
from capienza.ledger.ledger import Ledger, Total
from capienza.ledger.phase import Phase
from capienza.predict.answer import engine_word, worst_device
from capienza.predict.combination import combination_of
from capienza.predict.gpu import NO_GPU, GpuFacts
from capienza.predict.model import Model, resident_format
from capienza.predict.resident import rule_outcomes
from capienza.predict.sizing import ask_engine, ask_training, build_ledger, cache_format
from capienza.truth import Truth
from capienza.units import NOTHING, Range

if TYPE_CHECKING:
    from capienza.predict.sizing import Answer
    from capienza.predict.training.answer import TrainingAnswer

NO_CLAIM = GpuClaim(name_raw="-")


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine with a pool takes of one GPU, and whether the whole load runs in it. None is unknown."""

    budget_bytes: int | None
    pool_bytes: int | None
    required_bytes: int | None
    is_covered: bool | None
    is_refused: bool


class Predicted(msgspec.Struct, frozen=True, kw_only=True):
    """One configuration. `word` and `margin_bytes` None: no GPU is named, none of known size, or no figure holds.

    `margin_bytes` is the usable capacity minus the ceiling of the peak; with a peak that lacks entries at most that.
    `usable_bytes` is the smallest usable capacity.

    `refused` are the rules that every GPU of the name violates, `doubts` those that are open or only some violate.
    `needs` are the scopes that evidence has to have; `subjects` what rules of compatibility are asked about.
    """

    peaks: Mapping[Phase, Total]
    peak: Total
    word: FitWord | None
    margin_bytes: int | None
    usable_bytes: int | None = None
    is_excluded: bool = False
    pool: Pool | None = None
    refused: tuple[Message, ...] = ()
    doubts: tuple[Message, ...] = ()
    needs: tuple[Scope, ...] = ()
    subjects: frozenset[str] = frozenset()


Predict = Callable[["Gpu | None", int], Predicted]


def predictor(card: Card, model: Model, margin_bytes: int) -> Predict:
    """What is predicted of a card on so many of a GPU (None: of none that is named); each ledger is made once.

    The function raises `InputError` for a card that the engine or the model refuses.
    """
    made: dict[tuple[int, GpuFacts], tuple[Answer | None, Ledger]] = {}
    trainings: dict[int, TrainingAnswer | None] = {}
    combination = combination_of(card, model)
    subjects = frozenset[str]() if combination is None else combination.subjects

    def predict(gpu: Gpu | None, gpus: int) -> Predicted:
        is_training = card.task == "fine-tuning"
        facts = NO_GPU if gpu is None or (card.engine is None and not is_training) else gpu.facts
        if (gpus, facts) not in made:
            answer = ask_engine(card, model, gpus, facts)
            if gpus not in trainings:
                trainings[gpus] = ask_training(card, model, gpus)
            ledger = build_ledger(card, model, gpus, answer=answer, gpu=facts, training=trainings[gpus])
            made[gpus, facts] = answer, ledger
        answer, ledger = made[gpus, facts]
        peak = ledger.predicted_peak(worst_device(ledger))
        refused, doubts = _ruled(rule_outcomes(card, model, facts))
        found = Predicted(
            peaks=_peaks(ledger),
            peak=peak,
            word=None,
            margin_bytes=None,
            pool=_pool(answer),
            refused=refused,
            doubts=doubts,
            needs=_needs(card, model, gpu, gpus),
            subjects=subjects,
        )
        return found if gpu is None else _beside(found, gpu, answer, ledger, margin_bytes)

    return predict


def fullest(predicted: Predicted) -> Phase | None:
    """The phase that needs most; what an allocator keeps of an earlier one is no need of a later one."""
    return max(predicted.peaks, key=lambda phase: predicted.peaks[phase].need_bytes, default=None)


def without_figures(predicted: Predicted, lacks: tuple[str, ...]) -> Predicted:
    """The same where no figure of it holds, for what is named is lacking."""
    return msgspec.structs.replace(
        predicted,
        peaks={},
        peak=Total(NOTHING, lacks),
        word=None,
        margin_bytes=None,
        usable_bytes=None,
        is_excluded=False,
        pool=None,
    )


def _beside(found: Predicted, gpu: Gpu, answer: Answer | None, ledger: Ledger, margin_bytes: int) -> Predicted:
    """The same beside the capacity of a GPU."""
    capacity = gpu.capacity
    return msgspec.structs.replace(
        found,
        word=engine_word(fit_word(found.peak, capacity, margin_bytes), answer),
        margin_bytes=useful_margin(found.peak, capacity),
        usable_bytes=capacity.smallest_usable_bytes,
        is_excluded=any(exceeds(ledger.predicted_peak(device), capacity) is Truth.TRUE for device in ledger.gpus),
    )


def _peaks(ledger: Ledger) -> dict[Phase, Total]:
    """The need of each phase on the GPU that needs most in it; what is missing on any of them is missing."""
    found: dict[Phase, Total] = {}
    for phase in ledger.phases:
        totals = [ledger.peak(phase, device) for device in ledger.gpus]
        amount: Range = reduce(Range.largest, (total.amount for total in totals), NOTHING)
        missing = tuple(dict.fromkeys(name for total in totals for name in total.missing))
        found[phase] = Total(amount, missing, amount.expected - max(total.need_bytes for total in totals))
    return found


def _pool(answer: Answer | None) -> Pool | None:
    from capienza.predict.served import EngineAnswer

    if not isinstance(answer, EngineAnswer):
        return None
    rank = answer.served.tightest
    if not rank.offer.has_pool:
        return None
    return Pool(
        budget_bytes=rank.offer.budget_bytes,
        pool_bytes=rank.offer.pool_bytes,
        required_bytes=None if rank.required is None else rank.required.expected,
        is_covered=answer.is_covered,
        is_refused=answer.is_refused,
    )


def _ruled(found: tuple[tuple[Outcome, ...], ...]) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """What every GPU of the name violates, and what is open; a note that stands in no one's way is neither."""
    against = [[one.reason for one in of_gpu if one.truth is Truth.FALSE] for of_gpu in found]
    is_refused = bool(against) and all(against)
    refused = _distinct(against) if is_refused else ()
    some = () if is_refused else _distinct(against)
    unknown = _distinct([one.reason for one in of_gpu if one.truth is Truth.UNKNOWN] for of_gpu in found)
    return refused, (*some, *unknown)


def _distinct(groups: Iterable[Iterable[Message]]) -> tuple[Message, ...]:
    return tuple(dict.fromkeys(message for group in groups for message in group))


def _needs(card: Card, model: Model, gpu: Gpu | None, gpus: int) -> tuple[Scope, ...]:
    """The scopes that `decide` would ask of a record; without a GPU, of one that no record is about."""
    sizing = Sizing(
        model_name=model_name(card),
        revision=model.revision,
        weight_format=card.weights.format or resident_format(model) or _bits(model),
        kv_format=cache_format(card, model) if card.task == "inference" else None,
    )
    return needs_of(card, sizing, NO_CLAIM if gpu is None else gpu.claim, gpus)


def _bits(model: Model) -> str | None:
    """The format of a bare number of parameters."""
    return None if model.bits is None else f"{model.bits:f} bits"
