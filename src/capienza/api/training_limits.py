"""The needs of a card's training at other lengths and microbatches, and the accumulation that keeps its batch."""

from __future__ import annotations

import math

import msgspec

from capienza.card.fields import MAX_COUNT
from capienza.card.model import Card, Placement, TokenCount
from capienza.decide.limits import Limit, Need, limit
from capienza.errors import InputError, Message
from capienza.ledger.capacity import Capacity, fit_word
from capienza.ledger.ledger import CACHED, Ledger, Total
from capienza.ledger.phase import Phase
from capienza.predict.answer import worst_device
from capienza.predict.gpu import GpuFacts
from capienza.predict.model import Model
from capienza.predict.sizing import ask_training, build_ledger
from capienza.predict.training.passes import Passes
from capienza.recipe.recipe import Recipe
from capienza.units import NOTHING


class SameBatch(msgspec.Struct, frozen=True, kw_only=True):
    """The largest microbatch, within the limit, that some accumulation makes up to the card's batch.

    `sequences` of one optimizer step are the card's own. `is_certain`: it is a predicted fit.
    """

    microbatch: int
    accumulation: int
    sequences: int
    is_certain: bool


class TrainingSearch:
    """What a card's training needs at other lengths and microbatches; each is computed once."""

    def __init__(self, card: Card, model: Model, gpus: int, facts: GpuFacts) -> None:
        self.card = card
        self.model = model
        self.gpus = gpus
        self.facts = facts
        self.known: dict[tuple[int, int, int | None, bool], Need] = {}
        answer = ask_training(card, model, gpus, is_replayed=False)
        self.notes: tuple[Message, ...] = () if answer is None else answer.notes
        self.step = 1 if answer is None else microbatch_step(answer.recipe)

    def need(self, tokens: int, microbatch: int, accumulation: int | None = None) -> Need:
        """What that load needs, without what the allocator would give back."""
        return self._known(tokens, microbatch, accumulation, is_replayed=False)

    def whole(self, tokens: int, microbatch: int, accumulation: int | None = None) -> Need:
        """The same with its ceiling."""
        return self._known(tokens, microbatch, accumulation, is_replayed=True)

    def _known(self, tokens: int, microbatch: int, accumulation: int | None, *, is_replayed: bool) -> Need:
        key = tokens, microbatch, accumulation, is_replayed
        if key not in self.known:
            self.known[key] = self._computed(tokens, microbatch, accumulation, is_replayed=is_replayed)
        return self.known[key]

    def _computed(self, tokens: int, microbatch: int, accumulation: int | None, *, is_replayed: bool) -> Need:
        card = loaded(self.card, tokens, microbatch, accumulation)
        try:
            answer = ask_training(card, self.model, self.gpus, is_replayed=is_replayed)
        except InputError:
            # The card's own load was accepted: another one cannot be divided as its options want.
            return Need(peak=Total(NOTHING), amounts={}, is_refused=True)
        ledger = build_ledger(card, self.model, self.gpus, gpu=self.facts, training=answer)
        device = worst_device(ledger)
        phase = _fullest(ledger, device)
        peak = ledger.predicted_peak(device)
        walked = answer.passes if answer else None
        if walked is not None and not is_replayed:
            peak = msgspec.structs.replace(peak, missing=tuple(name for name in peak.missing if name != CACHED))
        return Need(
            peak=peak,
            amounts={
                entry.name: entry.amount.expected
                for entry in ledger.on(device)
                if entry.amount is not None and entry.name != CACHED and phase in entry.phases
            },
            phase=phase,
            where=_where(walked, phase),
        )


def loaded(card: Card, tokens: int, microbatch: int, accumulation: int | None = None) -> Card:
    """The card with another load; of a length in two parts the prompt stays."""
    required = card.tokens.required
    assert required is not None
    count = TokenCount(total=tokens)
    if required.prompt is not None and tokens > required.prompt:
        count = TokenCount(total=tokens, prompt=required.prompt, output=tokens - required.prompt)
    return msgspec.structs.replace(
        card,
        tokens=msgspec.structs.replace(card.tokens, required=required if tokens == required.total else count),
        microbatch=microbatch,
        accumulation=card.accumulation if accumulation is None else accumulation,
    )


def microbatch_step(recipe: Recipe) -> int:
    """What a microbatch must be a multiple of: completions of an update make whole groups (TRL, num_generations)."""
    if recipe.objective != "grpo" or recipe.preference is None:
        return 1
    return recipe.preference.group // math.gcd(
        recipe.preference.group, recipe.accumulation * recipe.parallel.data_ranks
    )


def microbatch_limit(search: TrainingSearch, tokens: int, capacity: Capacity, margin_bytes: int) -> Limit:
    """The largest microbatch, among those that the training divides."""
    step = search.step
    found = limit(
        "microbatch",
        tokens,
        lambda value: search.need(tokens, value * step),
        capacity,
        margin_bytes,
        whole=lambda value: search.whole(tokens, value * step),
        most=max(1, MAX_COUNT // step),
    )
    return msgspec.structs.replace(
        found,
        expected=found.expected and found.expected * step,
        certain=found.certain and found.certain * step,
    )


def same_batch(
    card: Card, search: TrainingSearch, tokens: int, found: Limit, capacity: Capacity, margin_bytes: int
) -> SameBatch | None:
    """What keeps the batch; None where the card leaves it open, or nothing that does fits."""
    most, usable = found.certain or found.expected, capacity.smallest_usable_bytes
    if not most or usable is None or card.microbatch is None or card.accumulation is None:
        return None
    of_a_gpu = card.microbatch * card.accumulation
    for microbatch in divisors(of_a_gpu, most):
        load = tokens, microbatch, of_a_gpu // microbatch
        need = search.need(*load)
        if need.is_refused or need.peak.need_bytes > usable:
            continue
        is_certain = bool(found.certain) and fit_word(search.whole(*load).peak, capacity, margin_bytes) == "fit"
        if found.certain and not is_certain:
            continue
        copies = card.placement.data_parallel if isinstance(card.placement, Placement) else 1
        return SameBatch(
            microbatch=microbatch, accumulation=load[2], sequences=of_a_gpu * copies, is_certain=is_certain
        )
    return None


def divisors(number: int, most: int) -> list[int]:
    """The divisors up to `most`, the largest first."""
    small = [one for one in range(1, math.isqrt(number) + 1) if number % one == 0]
    return sorted({one for low in small for one in (low, number // low) if one <= most}, reverse=True)


def _fullest(ledger: Ledger, device: str) -> Phase:
    """The phase that needs most; what an allocator keeps of an earlier one is no need of a later one."""
    return max(ledger.peaks(device), key=lambda peak: peak.total.need_bytes).phase


def _where(walked: Passes | None, phase: Phase) -> str:
    """The part of the program in which a pass holds most."""
    if walked is None:
        return ""
    moment = {Phase.FORWARD: walked.forward, Phase.BACKWARD: walked.backward, Phase.EVAL: walked.evaluation}.get(phase)
    return moment.where if moment is not None else ""
