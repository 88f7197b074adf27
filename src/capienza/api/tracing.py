"""`trace`: the peaks of a card's program, run on fake tensors."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from capienza.api.models import model_of
from capienza.api.sizing import read_card
from capienza.card.model import Card
from capienza.errors import InputError, MissingPartError, UsageError, template
from capienza.files import check_place

if TYPE_CHECKING:
    from capienza.predict.training.beside import Comparison
    from capienza.trace.cards.trace import CardTrace
    from capienza.trace.tracker import Progress

NO_TORCH = template(
    "trace.no-torch",
    "a trace runs the program itself, and {name} is not installed",
    "pip install 'capienza[trace]'; without it `capienza size` gives the analytic figures",
)
BROKEN_TORCH = template(
    "trace.broken-torch",
    "torch is installed and cannot be loaded: {reason}",
    "install it again: pip install --force-reinstall torch",
)
FEW_STEPS = template(
    "trace.few-steps", "expected a number of steps from 1, got {steps}", "two: the second is the steady one"
)


def trace(
    card: str | os.PathLike[str] | Card,
    gpu: str,
    *,
    steps: int = 2,
    settings: str | None = None,
    snapshot: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> CardTrace:
    """Build the program that a card asks for (a training or a generation by transformers) and trace it.

    `gpu` is a name of the catalogue, or "cpu" for a run in main memory; `settings` are those of PYTORCH_ALLOC_CONF,
    else the card's `allocator`. `snapshot` is a file that PyTorch's memory viewer opens.

    Raises `MissingPartError` without torch or transformers, `UnreachableError` where the file cannot be
    written, `UsageError` for what the card leaves open or a card of the catalogue whose kernels are not known,
    `InputError` for a model that cannot be traced.
    """
    if steps < 1:
        raise UsageError(FEW_STEPS(steps=steps))
    if snapshot is not None:
        # Found out now, not when the trace is done.
        check_place(Path(snapshot))
    read = read_card(card)
    model = model_of(read)
    try:
        from capienza.trace.cards.recipe import recipe_of
        from capienza.trace.cards.trace import trace_recipe
    except ImportError as error:
        if (error.name or "").partition(".")[0] == "capienza":
            raise
        raise MissingPartError(NO_TORCH(name=error.name or "torch")) from error
    except OSError as error:
        raise MissingPartError(BROKEN_TORCH(reason=str(error))) from error
    from capienza.allocator.settings import parse_settings
    from capienza.predict.model import stored_format
    from capienza.trace.machine import machine_of

    config = model.artifact.config if model.artifact is not None else None
    recipe = recipe_of(read, config, stored_format(model))
    total_bytes = machine_of(gpu).total_bytes if gpu != "cpu" else 0
    chosen = parse_settings(settings or read.allocator or "", total_bytes or None)
    found = trace_recipe(recipe, gpu, steps=steps, settings=chosen, progress=progress)
    if snapshot is not None:
        from capienza.trace.viewer import keep_snapshot

        keep_snapshot(found.prediction.traced.recording, 0, chosen, Path(snapshot))
    return found


def beside_closed_form(card: str | os.PathLike[str] | Card, gpu: str, found: CardTrace) -> Comparison | None:
    """A training's closed form beside its trace, phase by phase, with what is known of why they differ.

    None for a generation, a run in main memory, or a training without a closed form; one that `size` refuses is a
    cause without phases, as the trace stands all the same.
    """
    from capienza.api.sizing import size
    from capienza.predict.training.beside import NOT_COVERED, Comparison, causes, compared

    read = read_card(card)
    if read.task != "fine-tuning" or gpu == "cpu":
        return None
    try:
        sizing = size(read, gpu=gpu)
    except InputError as error:
        return Comparison((), (NOT_COVERED(why=error.message),))
    training = sizing.training
    if training is None:
        return None
    phases = compared(
        sizing.ledger, found.prediction.ledger, training.passes, found.logits_by_phase, sizing.ledger.gpus[0]
    )
    why = causes(phases, training.recipe, found.release, found.left_out, training.notes)
    return Comparison(phases, tuple(why))
