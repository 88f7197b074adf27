"""Trace the program of a card."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator

import msgspec

from capienza.allocator.settings import Settings
from capienza.errors import Message
from capienza.trace.cards.generation import Generation, shortened
from capienza.trace.cards.libraries import library
from capienza.trace.cards.logits import logits_by_phase
from capienza.trace.cards.model import replaced
from capienza.trace.cards.recipe import Recipe
from capienza.trace.cards.training import Training
from capienza.trace.peak import Prediction, predict_peak
from capienza.trace.tracker import Progress


class CardTrace(msgspec.Struct, frozen=True):
    """The peaks of a card's program, and what was taken for what the card leaves open."""

    prediction: Prediction
    assumed: tuple[Message, ...]
    left_out: tuple[Message, ...]
    release: str = ""
    """Of transformers, whose program it is."""
    logits_by_phase: dict[str, int] = {}
    """Bytes of a training's logits at each phase's highest moment; empty where they cannot be told."""


def trace_recipe(
    recipe: Recipe, device: str, *, steps: int, settings: Settings, progress: Progress | None = None
) -> CardTrace:
    """Run the program of a recipe on fake tensors. Raises what `predict_peak` raises."""
    target = "cpu" if device == "cpu" else "cuda"
    with _quiet():
        if recipe.task == "training":
            found = predict_peak(
                lambda: Training(recipe, target, steps),
                Training.update,
                steps=steps,
                device=device,
                settings=settings,
                progress=progress,
            )
        else:
            found = predict_peak(
                lambda: Generation(recipe, target),
                Generation.generate,
                steps=1,
                device=device,
                settings=settings,
                progress=progress,
            )
    told = shortened(recipe) if recipe.task == "generation" else None
    other = None if recipe.is_diffusion else replaced(recipe)
    return CardTrace(
        found,
        recipe.assumed + ((other,) if other else ()),
        recipe.left_out + ((told,) if told else ()),
        release=str(library("transformers").__version__),
        logits_by_phase=logits_by_phase(found, recipe) if recipe.task == "training" else {},
    )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """What the libraries say of their own future is not about the card."""
    loggers = [logging.getLogger(name) for name in ("transformers", "bitsandbytes", "peft")]
    library("transformers")
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
