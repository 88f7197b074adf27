"""Steps of one rank: a program's parts, with what a sharding library does between them.

Legend: unit -1 is the root, units from 0 are layers. A forward pass begins with the root and ends with the loss; in a
backward pass a layer is gathered before its part and reduced after it, the root last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from capienza.ledger.phase import Phase
from capienza.predict.training.parallel.passage import Passage, left_over, numbered
from capienza.predict.training.parallel.program import STATES, TRANSIENT, WORKSPACES, Program

ROOT = -1
STEP_COUNTER_BYTES = 4


class Sharder(Protocol):
    """What a library does for a unit, written into `program`."""

    program: Program
    keeps_gradients: bool
    """This rank's gradients outlive `zero_grad`, until the next forward pass."""

    def load(self) -> None:
        """This rank's part of all units."""

    def unshard_in_forward(self, unit: int) -> None:
        """Before a unit's forward."""

    def reshard_in_forward(self, unit: int) -> None:
        """After a layer's forward."""

    def end_forward(self) -> None:
        """The root's forward is over."""

    def gather_last(self) -> None:
        """The root's backward begins: the last layer is gathered ahead."""

    def unshard_in_backward(self, unit: int) -> None:
        """Before a layer's backward."""

    def reduce(self, unit: int, gradients: Sequence[int]) -> None:
        """After a unit's backward: its gradients, whole, become this rank's part of the sum."""

    def leave(self, unit: int, gradients: Sequence[int]) -> None:
        """After a unit's backward where gradients stay whole, added to those of the microbatches before."""

    def end_backward(self) -> None:
        """The backward pass is over."""

    def states(self) -> Sequence[int]:
        """Sizes of the states of each weight that is trained, in bytes, one after the other."""

    def transients(self) -> Sequence[int]:
        """What an optimizer step makes for its own length."""

    def zero(self) -> None:
        """Gradients of the step before go."""


def weave(
    passages: Sequence[Passage],
    sharder: Sharder,
    *,
    workspace_bytes: int,
    microbatches: int = 1,
    accumulates_whole: bool = False,
    has_loss: bool = False,
    steps: int = 2,
    evaluation: Sequence[Passage] = (),
) -> Program:
    """So many steps of one rank. `passages` are one microbatch's, in order, forward and backward.

    `workspace_bytes`: the matrix library's, of the main thread and again of the thread that runs backward. `has_loss`:
    the model itself makes the loss, so that the root's backward begins with it; else it begins with the head.
    `evaluation`: a forward pass without gradients, after the steps.
    """
    program = sharder.program
    program.enter(Phase.LOAD)
    sharder.load()
    program.take(workspace_bytes, purpose=WORKSPACES)
    batch: tuple[int, ...] = ()
    for step in range(steps):
        sharder.zero()
        for microbatch in range(microbatches):
            mine = numbered(passages, microbatch)
            program.give(*batch)
            batch = left_over(mine)
            program.enter(Phase.FORWARD)
            _forward([passage for passage in mine if passage.phase == "forward"], sharder)
            if step == microbatch == 0:
                program.take(workspace_bytes, purpose=WORKSPACES)
            program.enter(Phase.BACKWARD)
            is_reduced = microbatch == microbatches - 1 or not accumulates_whole
            if has_loss:
                sharder.gather_last()
            _backward([passage for passage in mine if passage.phase == "backward"], sharder, is_reduced=is_reduced)
        program.enter(Phase.OPTIMIZER_STEP_STEADY if step else Phase.OPTIMIZER_STEP_FIRST)
        if step == 0:
            for size in sharder.states():
                program.take(STEP_COUNTER_BYTES, purpose=STATES)
                program.take(size // 2, purpose=STATES)
                program.take(size - size // 2, purpose=STATES)
        program.passing(*sharder.transients(), purpose=TRANSIENT)
    if not sharder.keeps_gradients:
        sharder.zero()
    program.enter(Phase.CHECKPOINT)
    if evaluation:
        sharder.zero()
        program.enter(Phase.EVAL)
        program.give(*batch)
        _forward(evaluation, sharder)
    return program


def _forward(passages: Sequence[Passage], sharder: Sharder) -> None:
    sharder.unshard_in_forward(ROOT)
    for passage in passages:
        if isinstance(passage.place, int):
            sharder.unshard_in_forward(passage.place)
        _run(passage, sharder)
        if isinstance(passage.place, int):
            sharder.reshard_in_forward(passage.place)
    sharder.end_forward()


def _backward(passages: Sequence[Passage], sharder: Sharder, *, is_reduced: bool) -> None:
    end = sharder.reduce if is_reduced else sharder.leave
    root: list[int] = []
    for passage in passages:
        if not isinstance(passage.place, int):
            _run(passage, sharder)
            root += passage.gradients
            continue
        sharder.unshard_in_backward(passage.place)
        _run(passage, sharder)
        end(passage.place, passage.gradients)
    end(ROOT, root)
    sharder.end_backward()


def _run(passage: Passage, sharder: Sharder) -> None:
    sharder.program.at(passage.place)
    sharder.program.extend(passage.events, passage.purposes)
