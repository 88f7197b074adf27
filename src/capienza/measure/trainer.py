"""A callback for the Trainer of Hugging Face (and of TRL, which is built on it) that says which phase each part is.

The Trainer announces steps, not passes: the end of the model's own forward pass, seen by a hook, is where the backward
pass begins. A loss that is computed outside the model therefore counts as backward. The same hook sees the batches: how
long their sequences are and how many there are is written down as what was executed.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

from capienza.errors import MissingPartError, template
from capienza.ledger.phase import Phase
from capienza.measure.phases import current, next_update
from capienza.measure.recorder import OpenPhase
from capienza.measure.usage_file import UsageFile

NO_TRANSFORMERS = template(
    "measure.no-transformers",
    "the Trainer's callback needs transformers, which is not installed",
    "install transformers, or mark the phases with capienza.measure.phase",
)


def trainer_callback() -> Any:
    """A callback to pass to `Trainer(callbacks=[...])`; without effect where nothing is recorded.

    Raises `MissingPartError` when transformers is not installed.
    """
    try:
        transformers = importlib.import_module("transformers")
    except ImportError as error:
        raise MissingPartError(NO_TRANSFORMERS()) from error
    return type("PhaseCallback", (_Events, transformers.TrainerCallback), {})()


class _Events:
    """What the Trainer announces, as phases: one at a time, the next begins where the last has ended."""

    def __init__(self) -> None:
        self._opened: OpenPhase | None = None
        self._hooks: list[Any] = []
        self._step: int | None = None
        self._usage: UsageFile | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, *, model: Any, **_: Any) -> None:
        recorder = current()
        if recorder is None:
            return
        if not recorder.seen:
            recorder.end(recorder.begin(Phase.LOAD, is_whole_past=True))
        accumulation = getattr(args, "gradient_accumulation_steps", None)
        self._usage = UsageFile(recorder.folder, recorder.rank, accumulation)
        self._hooks = [
            model.register_forward_pre_hook(_uncompiled(self._before_forward), with_kwargs=True),
            model.register_forward_hook(_uncompiled(self._after_forward)),
        ]

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._step = state.global_step

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        recorder = current()
        if recorder is not None:
            self._enter(next_update(recorder))

    def on_substep_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._leave()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._after_step(control, control.should_evaluate)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._after_step(control, control.should_evaluate)

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._after_step(control, is_evaluated_next=False)

    def on_predict(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._leave()

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._leave()

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._leave()
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        if self._usage is not None:
            self._usage.write()

    def _after_step(self, control: Any, is_evaluated_next: bool) -> None:
        """The Trainer evaluates before it saves; it announces the end of both, and the beginning of neither."""
        self._leave()
        if is_evaluated_next:
            self._enter(Phase.EVAL)
        elif control.should_save:
            self._enter(Phase.CHECKPOINT)

    def _before_forward(self, model: Any, inputs: Any, named: Any) -> None:
        if model.training:
            self._enter(Phase.FORWARD)
            shape = _shape(inputs, named)
            if self._usage is not None and shape is not None:
                self._usage.add(tokens=shape[1], microbatch=shape[0])
        elif self._opened is None:
            self._enter(Phase.EVAL)

    def _after_forward(self, model: Any, inputs: Any, outputs: Any) -> None:
        if model.training:
            self._enter(Phase.BACKWARD)

    def _enter(self, phase: Phase) -> None:
        self._leave()
        recorder = current()
        if recorder is not None:
            self._opened = recorder.begin(phase, self._step)

    def _leave(self) -> None:
        recorder, opened, self._opened = current(), self._opened, None
        if recorder is not None and opened is not None:
            recorder.end(opened)


def _shape(inputs: tuple[Any, ...], named: dict[str, Any]) -> tuple[int, int] | None:
    """Sequences and tokens of each in a batch; None for a model that takes no tokens."""
    batch = named.get("input_ids", named.get("inputs_embeds", inputs[0] if inputs else None))
    shape: tuple[int, ...] = tuple(getattr(batch, "shape", ()))
    is_embedded = "inputs_embeds" in named and "input_ids" not in named
    return (shape[0], shape[1]) if len(shape) == (3 if is_embedded else 2) else None


def _uncompiled(hook: Callable[..., None]) -> Any:
    """A hook that `torch.compile` leaves as it is, where the program compiles anything at all."""
    compiler = sys.modules.get("torch._dynamo")
    return hook if compiler is None else compiler.disable(hook)
