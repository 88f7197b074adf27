"""A sizing: the card, the model, the ledger, and how it stands beside one GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from capienza.card.model import Card
from capienza.errors import Message, template
from capienza.ledger.capacity import Capacity, FitWord, bounded_word, exceeds, fit_word
from capienza.ledger.entry import Entry
from capienza.ledger.ledger import Ledger, Total
from capienza.predict.model import Model
from capienza.predict.options import option_notes
from capienza.truth import Truth

if TYPE_CHECKING:
    from capienza.predict.llama_served import LlamaAnswer
    from capienza.predict.served import EngineAnswer
    from capienza.predict.storage import Volumes
    from capienza.predict.training.answer import TrainingAnswer

BEYOND_LIMIT = template(
    "predict.beyond-the-models-limit",
    "the required {required} tokens are more than the {limit} that the model is made for (max_position_embeddings)",
    "the figures here are for the required length; decide excludes the load as it stands",
)
WITHIN_STRETCH = template(
    "predict.within-stretched-positions",
    "the required {required} tokens are more than {limit} (max_position_embeddings), and within the {reach} that "
    "rope_scaling reaches",
    "an engine covers them only if it applies rope_scaling: a run at this length settles it",
)

LEFT_OUT = template(
    "predict.files-left-out",
    "files that also hold weights were not read: {files}",
    "name the file itself to size it",
)
SHOWN_FILES = 4


class GpuFit(msgspec.Struct, frozen=True, kw_only=True):
    """The ledger beside one GPU class. `margin_bytes` is the smallest usable capacity minus the ceiling of the peak.

    With an unknown entry in the peak it is an upper bound, and taken from the largest capacity; None: not known.
    """

    asked: str
    candidates: tuple[str, ...]
    gpus: int
    capacity: Capacity
    word: FitWord
    margin_bytes: int | None
    is_excluded: bool


class Sizing(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `size`."""

    card: Card
    model: Model
    ledger: Ledger
    fit: GpuFit | None = None
    answer: EngineAnswer | LlamaAnswer | None = None
    training: TrainingAnswer | None = None
    volumes: Volumes | None = None
    rule_notes: tuple[Message, ...] = ()
    """What the rules of compatibility say of the GPU asked for, where they are not met."""

    def entries(self, name: str) -> tuple[Entry, ...]:
        """The entries of that name: one for each GPU, or that of the server."""
        return tuple(entry for entry in self._all() if entry.name == name)

    def entry_names(self) -> tuple[str, ...]:
        """The names that `entries` knows."""
        return tuple(dict.fromkeys(entry.name for entry in self._all()))

    def _all(self) -> tuple[Entry, ...]:
        server = (*self.volumes.storage, *self.volumes.ram) if self.volumes else ()
        return (*self.ledger.entries, *server)

    def worst_device(self) -> str:
        """The GPU that needs most."""
        return worst_device(self.ledger)

    def worst_peak(self) -> Total:
        """The predicted peak of the GPU that needs most."""
        return self.ledger.predicted_peak(self.worst_device())

    def reserve_taken_bytes(self) -> int:
        """How much the computed entries other than the weights take on that GPU: it comes out of the reserve."""
        device = self.worst_device()
        return self.worst_peak().amount.expected - self.ledger.weights_only(device).amount.expected

    def num_parameters(self) -> int | None:
        """Exact number of parameters and stored buffers, as far as the architecture or the card tells."""
        architecture = self.model.architecture
        if architecture is not None and architecture.parameters:
            return architecture.num_stored_elements
        return self.model.parameters

    def notes(self) -> tuple[Message, ...]:
        """What the reader of the files has to know: parts not counted, differences, a refused architecture."""
        model = self.model
        found = [*(model.artifact.notes if model.artifact else ()), *self._left_out()]
        found += model.architecture.notes if model.architecture else ()
        found += [model.refusal] if model.refusal else []
        found += self.answer.notes if self.answer else self._unknown_engine()
        found += self.training.notes if self.training else ()
        found += (*self.rule_notes, *model.differences, *self._too_long())
        found += open_notes(self.card, self.answer, self.training)
        return tuple(dict.fromkeys(found))

    def _unknown_engine(self) -> tuple[Message, ...]:
        engine = self.card.engine
        if engine is None or self.card.task != "inference":
            return ()
        from capienza.predict.inference.engines import known_engine_note

        return known_engine_note(engine.name)

    def _left_out(self) -> tuple[Message, ...]:
        names = self.model.artifact.left_out if self.model.artifact else ()
        if not names:
            return ()
        more = (f"+{len(names) - SHOWN_FILES}",) if len(names) > SHOWN_FILES else ()
        return (LEFT_OUT(files=(*names[:SHOWN_FILES], *more)),)

    def _too_long(self) -> tuple[Message, ...]:
        architecture, required = self.model.architecture, self.card.tokens.required
        limit = architecture.max_position_embeddings if architecture else None
        if limit is None or required is None or required.total <= limit:
            return ()
        reach = architecture.stretched_positions if architecture else None
        if reach is not None and required.total <= reach:
            return (WITHIN_STRETCH(required=required.total, limit=limit, reach=reach),)
        return (BEYOND_LIMIT(required=required.total, limit=limit),)


def engine_word(word: FitWord, answer: EngineAnswer | LlamaAnswer | None) -> FitWord:
    """The word that a ledger gives, as far as the engine's own pool bears it out."""
    if answer is None:
        return word
    return bounded_word(word, is_refused=answer.is_refused, is_covered=answer.is_covered)


def open_notes(
    card: Card, answer: EngineAnswer | LlamaAnswer | None, training: TrainingAnswer | None = None
) -> tuple[Message, ...]:
    """Settings that leave nothing proved; llama.cpp's answer names its own."""
    if answer is not None and answer.reads_options:
        return ()
    return option_notes(card, is_shared=training is not None and training.is_computed_shared)


def worst_device(ledger: Ledger) -> str:
    """The GPU with the largest expected peak; the first of equals."""

    def need(device: str) -> tuple[int, int]:
        amount = ledger.predicted_peak(device).amount
        return amount.expected, amount.ceiling

    return max(ledger.gpus, key=need)


def gpu_fit(
    ledger: Ledger,
    capacity: Capacity,
    margin_bytes: int,
    asked: str,
    candidates: tuple[str, ...],
    answer: EngineAnswer | LlamaAnswer | None = None,
) -> GpuFit:
    """Fit word and useful margin of the most loaded GPU; an engine that would not run the load is no fit."""
    worst = ledger.predicted_peak(worst_device(ledger))
    # A peak that lacks entries bounds the margin from above, and only the largest capacity keeps that bound true.
    usable = capacity.smallest_usable_bytes if worst.is_complete else capacity.largest_usable_bytes
    return GpuFit(
        asked=asked,
        candidates=candidates,
        gpus=len(ledger.gpus),
        capacity=capacity,
        word=engine_word(fit_word(worst, capacity, margin_bytes), answer),
        margin_bytes=None if usable is None else usable - worst.amount.ceiling,
        is_excluded=any(exceeds(ledger.predicted_peak(device), capacity) is Truth.TRUE for device in ledger.gpus),
    )
