"""A pipeline stage of Megatron-DeepSpeed: its training steps as events of the allocator.

Legend: p stages, i a stage's number from 0, m microbatches of a step. 1F1B: stage i runs min(p - i, m) forward passes
before its first backward pass, then one of each by turns, so that many microbatches wait at once. DeepSpeed keeps
max(2, min(p - i, m)) buffers; on the last stage each keeps the logits of its latest microbatch until it is used again.
Weights, gradients and both Adam states are fp32, or whatever `element_bytes` says. Between stages 1/t of a tensor
travels.

Sources: deepspeed/runtime/pipe/engine.py and schedule.py (TrainSchedule), engine.py (`allreduce_bucket`: all gradients
are copied into one flat bucket of at most 5e8 elements), megatron/core/tensor_parallel/cross_entropy.py (the loss makes
one more tensor of the logits' size, which becomes their gradient). cuBLAS: 32 MiB on Hopper and later, else 8320 KiB,
for the main thread and for autograd's (ATen/cuda/CublasHandlePool.cpp).
"""

from __future__ import annotations

import msgspec

from capienza.allocator.replay import replay
from capienza.predict.training.parallel.megatron_layer import Block, Gradients, Saved, backward, forward, norm
from capienza.predict.training.parallel.program import Program

BUCKET_ELEMENTS = 500_000_000
INDEX_BYTES = 8
STEPS = 3
"""The first one has no states; the allocator's cache is the same after the second."""


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """One of `stages`, `number` from 0, with so many `layers`; the first has embeddings, the last the head.

    `vocabulary` is padded to a multiple of 128 x tensor ranks already.
    """

    block: Block
    number: int
    stages: int
    layers: int
    microbatches: int
    vocabulary: int
    positions: int
    workspace_bytes: int

    @property
    def is_first(self) -> bool:
        """It has the embeddings."""
        return self.number == 0

    @property
    def is_last(self) -> bool:
        """It has the head and the loss."""
        return self.number == self.stages - 1

    @property
    def in_flight(self) -> int:
        """Microbatches that wait for their backward pass at most."""
        return min(self.stages - self.number, self.microbatches)

    @property
    def weights(self) -> list[int]:
        """Elements of a rank's part of each weight."""
        block = self.block
        words = self.vocabulary // block.tensor_ranks * block.hidden
        first = [words, self.positions * block.hidden] if self.is_first else []
        last = [words, 2 * block.hidden] if self.is_last else []
        return [*first, *(list(block.weights.values()) * self.layers), *last]

    @property
    def logits_bytes(self) -> int:
        """[N, vocabulary / t]."""
        block = self.block
        return block.microbatch * block.tokens * self.vocabulary // block.tensor_ranks * block.element_bytes


class StagePeak(msgspec.Struct, frozen=True):
    """The peaks of a stage, each at its own moment."""

    allocated_bytes: int
    reserved_bytes: int


class _Waiting(msgspec.Struct, frozen=True):
    """A microbatch between its passes."""

    layers: tuple[Saved, ...]
    inputs: tuple[int, ...]
    output: int
    head: tuple[int, ...]


def padded_vocabulary(vocabulary: int, tensor_ranks: int) -> int:
    """Megatron's --make-vocab-size-divisible-by 128, for every rank."""
    multiple = 128 * tensor_ranks
    return -(-vocabulary // multiple) * multiple


def stage_peak(stage: Stage) -> StagePeak:
    """Run three steps of a stage through the allocator."""
    peaks = replay(stage_program(stage).events).peaks
    return StagePeak(peaks.allocated_bytes, peaks.reserved_bytes)


def stage_program(stage: Stage, steps: int = STEPS) -> Program:
    """What so many steps take and give back."""
    program = Program()
    element_bytes = stage.block.element_bytes
    program.take(stage.workspace_bytes)
    for elements in stage.weights:
        program.take(elements * element_bytes)
    gradients = Gradients(program, element_bytes)
    slots = max(2, stage.in_flight)
    kept: dict[int, int] = {}
    for number in range(steps):
        waiting: list[tuple[int, _Waiting]] = []
        for index in range(stage.microbatches):
            slot = index % slots
            waiting.append((slot, _forward(program, stage)))
            if slot in kept:
                program.give(kept.pop(slot))
            if len(waiting) == stage.in_flight:
                _turn(program, stage, waiting, gradients, kept)
            if number == index == 0:
                program.take(stage.workspace_bytes)
        while waiting:
            _turn(program, stage, waiting, gradients, kept)
        program.passing(min(sum(stage.weights), BUCKET_ELEMENTS) * element_bytes)
        if number == 0:
            for elements in stage.weights:
                program.take(elements * element_bytes)
                program.take(elements * element_bytes)
        gradients.clear()
    return program


def _turn(
    program: Program, stage: Stage, waiting: list[tuple[int, _Waiting]], gradients: Gradients, kept: dict[int, int]
) -> None:
    slot, oldest = waiting.pop(0)
    _backward(program, stage, oldest, gradients)
    if stage.is_last:
        kept[slot] = oldest.output


def _forward(program: Program, stage: Stage) -> _Waiting:
    block = stage.block
    rows = block.microbatch * block.tokens
    inputs: tuple[int, ...] = ()
    if stage.is_first:
        inputs = (program.take(rows * INDEX_BYTES), program.take(rows * INDEX_BYTES))
        words, places = program.take(block.full_bytes), program.take(block.full_bytes)
        state = program.take(block.full_bytes)
        program.give(words, places)
        if block.microbatch > 1:
            # [rows, length, h] to [length, rows, h]; with one row there is nothing to copy.
            state, before = program.take(block.full_bytes), state
            program.give(before)
    else:
        received = program.take(block.part_bytes)
        state = program.take(block.full_bytes)
        program.give(received)
    layers = []
    for _ in range(stage.layers):
        saved, state = forward(program, block, state)
        layers.append(saved)
    if not stage.is_last:
        sent = program.take(block.part_bytes)
        program.give(state)
        return _Waiting(tuple(layers), inputs, sent, ())
    normed = norm(program, block)
    logits = program.take(stage.logits_bytes)
    highest, where = program.take(block.statistics_bytes), program.take(rows * INDEX_BYTES)
    likely = program.take(stage.logits_bytes)
    program.give(where, highest)
    loss = program.take(block.statistics_bytes)
    return _Waiting(tuple(layers), inputs, logits, (likely, loss, state, *normed))


def _backward(program: Program, stage: Stage, waiting: _Waiting, gradients: Gradients) -> None:
    block = stage.block
    words = stage.vocabulary // block.tensor_ranks * block.hidden
    gradient = program.take(block.full_bytes)
    if stage.is_last:
        likely, loss, state, normed, mean, deviation = waiting.head
        gradients.add("head", words)
        program.give(likely, loss, normed)
        gradient, before = program.take(block.full_bytes), gradient
        program.give(before, mean, deviation, state)
    else:
        program.give(waiting.output)
    for layer in reversed(range(stage.layers)):
        gradient = backward(program, block, waiting.layers[layer], gradient, gradients, layer)
    if stage.is_first:
        if block.microbatch > 1:
            gradient, before = program.take(block.full_bytes), gradient
            program.give(before)
        gradients.add("words", words)
        gradients.add("positions", stage.positions * block.hidden)
    program.give(gradient, *waiting.inputs)
