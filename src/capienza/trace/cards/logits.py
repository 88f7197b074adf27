"""How much of a traced training's memory is logits and what the loss makes of them, phase by phase."""

from __future__ import annotations

from typing import Any

from capienza.trace import holders
from capienza.trace.cards.recipe import Recipe
from capienza.trace.peak import Prediction, by_phase

PASSES = frozenset({holders.ACTIVATIONS, holders.RECOMPUTED, holders.TEMPORARIES})


def logits_by_phase(found: Prediction, recipe: Recipe) -> dict[str, int]:
    """Bytes, as they were asked for, of the storages with an element for every target and every word.

    Each phase at the moment when most is allocated in it. Empty where the model's vocabulary is not known. A storage
    is known by its size alone, so many whole rows of the vocabulary: the loss is made by functions without a module.
    """
    vocabulary = vocabulary_of(recipe.config)
    if vocabulary is None:
        return {}
    gpu, recording = found.gpus[0], found.traced.recording
    device = min(recording.events)
    named = holders.categories(recording, device)
    totals: dict[str, int] = {}
    for phase, spans in by_phase(gpu.replay).items():
        rows = recipe.eval_sequences if phase == "eval" else recipe.sequences
        # The last token of a row is no one's context, so its logits may be cut off.
        least = max(1, rows * (recipe.tokens - 1)) * vocabulary
        event = max(spans, key=lambda span: span.allocated_bytes).allocated_event
        totals[phase] = sum(
            recording.sizes[block]
            for block in holders.alive(recording, device, event)
            if named[block] in PASSES and _is_whole_rows(recording.sizes[block], least, vocabulary)
        )
    return totals


def _is_whole_rows(size_bytes: int, least_bytes: int, vocabulary: int) -> bool:
    return size_bytes >= least_bytes and size_bytes % vocabulary == 0


def vocabulary_of(config: dict[str, Any]) -> int | None:
    """The words of a model by its config.json, of its text part where it has several."""
    found = config.get("vocab_size")
    if found is None:
        text = config.get("text_config")
        found = text.get("vocab_size") if isinstance(text, dict) else None
    return found if isinstance(found, int) and not isinstance(found, bool) else None
