"""`limits`: the largest length and concurrency, or microbatch, of a card's workload on a GPU."""

from __future__ import annotations

import os

import msgspec

from capienza.api.models import model_of
from capienza.api.sizing import facts_of, gpus_of, margin_bytes, named_gpu, named_traits, read_card, split_gpu
from capienza.api.training_limits import SameBatch, TrainingSearch, microbatch_limit, same_batch
from capienza.card.model import Card, TokenCount
from capienza.card.options import plain_name
from capienza.decide.limits import Limit, Need, limit
from capienza.errors import InputError, Message, Place, UsageError, template
from capienza.ledger.capacity import Capacity, capacity_from, for_training
from capienza.ledger.ledger import Total
from capienza.predict.answer import worst_device
from capienza.predict.gpu import GpuFacts
from capienza.predict.model import Model
from capienza.predict.resident import rule_notes, rule_outcomes
from capienza.predict.sizing import ask_engine, build_ledger
from capienza.units import NOTHING

NEEDS_LOAD = template(
    "limits.needs-load",
    "limits needs {needed}; the card does not state {fields}",
    "state them: each limit holds the other one fixed",
)
JUMPS = template(
    "limits.cache-jumps",
    "the ceiling holds what the allocator keeps, which also falls where a size grows: a predicted fit is of that size, "
    "and not of every smaller one",
    "size the card at each length that the run has",
)
TWO_COUNTS = template(
    "limits.two-gpu-counts", "--gpu asks for {named} GPUs and --gpus for {asked}", "give the number once"
)


MAX_LENGTH_OPTION = "max_model_len"


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `limits`: `max_positions` is the longest sequence the model is made for (None: not stated).

    An inference has a `concurrency`, a fine-tuning a `microbatch`, and `same_batch` where some accumulation keeps its
    batch within the limit.
    """

    card: Card
    model: Model
    gpu: str
    gpus: int
    capacity: Capacity
    length: Limit
    concurrency: Limit | None = None
    microbatch: Limit | None = None
    same_batch: SameBatch | None = None
    max_positions: int | None
    notes: tuple[Message, ...] = ()


def limits(card: str | os.PathLike[str] | Card, gpu: str, gpus: int | None = None) -> Limits:
    """The largest required length at the card's concurrency or microbatch, and the largest of these at its length.

    Raises `UsageError` for GPU counts that contradict each other or the card, `InputError` for a card that leaves the
    load open or a GPU that is not known.
    """
    read = card if isinstance(card, Card) else read_card(card)
    name, named = split_gpu(gpu)
    if named is not None and gpus is not None and named != gpus:
        raise UsageError(TWO_COUNTS(named=named, asked=gpus))
    _check(read)
    model = model_of(read)
    known = named_gpu(name)
    others = read.host.others_use_bytes if read.host is not None and read.host != "none" else None
    capacity = capacity_from(known, others or 0)
    capacity = for_training(capacity) if read.task == "fine-tuning" else capacity
    count = gpus_of(read, named if gpus is None else gpus)
    facts = facts_of(known, named_traits(name))
    found = _trained if read.task == "fine-tuning" else _served
    return found(read, model, capacity, name, count, facts)


def _served(card: Card, model: Model, capacity: Capacity, gpu: str, gpus: int, facts: GpuFacts) -> Limits:
    search = _Search(card, model, gpus, facts)
    required, sequences = card.tokens.required, card.concurrency
    assert required is not None
    assert sequences is not None
    bound, bound_by = _bound(card, model)
    margin = margin_bytes(card)
    return Limits(
        card=card,
        model=model,
        gpu=gpu,
        gpus=gpus,
        capacity=capacity,
        length=limit(
            "tokens", sequences, lambda value: search.need(value, sequences), capacity, margin, bound, bound_by
        ),
        concurrency=limit(
            "concurrency", required.total, lambda value: search.need(required.total, value), capacity, margin
        ),
        max_positions=model.architecture.max_position_embeddings if model.architecture else None,
        notes=search.notes,
    )


def _trained(card: Card, model: Model, capacity: Capacity, gpu: str, gpus: int, facts: GpuFacts) -> Limits:
    search = TrainingSearch(card, model, gpus, facts)
    required, sequences = card.tokens.required, card.microbatch
    assert required is not None
    assert sequences is not None
    tokens, margin = required.total, margin_bytes(card)
    longest = model.architecture.max_position_embeddings if model.architecture else None
    microbatch = microbatch_limit(search, tokens, capacity, margin)
    return Limits(
        card=card,
        model=model,
        gpu=gpu,
        gpus=gpus,
        capacity=capacity,
        length=limit(
            "tokens",
            sequences,
            lambda value: search.need(value, sequences),
            capacity,
            margin,
            longest,
            whole=lambda value: search.whole(value, sequences),
        ),
        microbatch=microbatch,
        same_batch=same_batch(card, search, tokens, microbatch, capacity, margin),
        max_positions=longest,
        notes=(
            *search.notes,
            *((JUMPS(),) if microbatch.certain else ()),
            *rule_notes(rule_outcomes(card, model, facts)),
        ),
    )


def _bound(card: Card, model: Model) -> tuple[int | None, str]:
    """The longest sequence that may be asked for, and what says so: the model, or the card's own engine options."""
    options = card.engine.options if card.engine else {}
    stated = next((value for name, value in options.items() if plain_name(name) == MAX_LENGTH_OPTION), None)
    longest = model.architecture.max_position_embeddings if model.architecture else None
    if (
        isinstance(stated, int)
        and not isinstance(stated, bool)
        and stated > 0
        and (longest is None or stated < longest)
    ):
        return stated, "engine"
    return longest, "model"


def _check(card: Card) -> None:
    sequences = {"concurrency": card.concurrency} if card.task == "inference" else {"microbatch": card.microbatch}
    needed = {"tokens.required": card.tokens.required, **sequences}
    missing = tuple(name for name, value in needed.items() if value is None)
    if missing:
        raise InputError(NEEDS_LOAD(needed=tuple(needed), fields=missing), Place(card.file))


class _Search:
    """The needs of one card's workload at other lengths and concurrencies; each is computed once."""

    def __init__(self, card: Card, model: Model, gpus: int, facts: GpuFacts) -> None:
        self.card = card
        self.model = model
        self.gpus = gpus
        self.facts = facts
        self.known: dict[tuple[int, int], Need] = {}
        answer = ask_engine(card, model, gpus, facts)
        rules = rule_notes(rule_outcomes(card, model, facts))
        self.notes: tuple[Message, ...] = (*(() if answer is None else answer.notes), *rules)

    def need(self, tokens: int, sequences: int) -> Need:
        """What that load needs on the fullest GPU."""
        if (tokens, sequences) not in self.known:
            self.known[tokens, sequences] = self._computed(tokens, sequences)
        return self.known[tokens, sequences]

    def _computed(self, tokens: int, sequences: int) -> Need:
        required = msgspec.structs.replace(self.card.tokens, required=TokenCount(total=tokens))
        card = msgspec.structs.replace(self.card, tokens=required, concurrency=sequences)
        try:
            answer = ask_engine(card, self.model, self.gpus, self.facts)
        except InputError:
            # The card's own load was accepted: another one meets a limit that its options or the engine set.
            return Need(peak=Total(NOTHING), amounts={}, is_refused=True)
        ledger = build_ledger(card, self.model, self.gpus, answer=answer, gpu=self.facts)
        device = worst_device(ledger)
        return Need(
            peak=ledger.predicted_peak(device),
            amounts={entry.name: entry.amount.expected for entry in ledger.on(device) if entry.amount is not None},
            is_held=None if answer is None else answer.is_held,
            queues=answer is not None and answer.queues,
        )
