"""How many microbatches wait on a pipeline stage, by schedule.

Legend: p stages, i a stage from 0, m microbatches, v parts of the model on each stage (interleaved).
    1f1b         min(p - i, m)
    gpipe        m
    interleaved  of v p parts, the first stage holds p (1 + (p - 1)/(p v)) microbatches' worth of its layers: in parts
                 min(2 (p - i - 1) + (v - 1) p + 1, v m)
Sources: Narayanan et al. 2021 (arXiv 2104.04473) section 2.2; Korthikanti et al. 2022 (arXiv 2205.05198) section 4.2.3;
megatron/core/pipeline_parallel/schedules.py (warm-up); 1F1B's first and last ranks agree with traced ones.
"""

from __future__ import annotations

from typing import Literal

Schedule = Literal["1f1b", "gpipe", "interleaved"]


def waiting_parts(schedule: Schedule, *, stage: int, stages: int, microbatches: int, parts: int = 1) -> int:
    """Microbatches, each of one part of a stage's layers, that wait for backward at most."""
    if schedule == "gpipe":
        return microbatches * parts
    if schedule == "1f1b" or parts == 1:
        return min(stages - stage, microbatches)
    return min(2 * (stages - stage - 1) + (parts - 1) * stages + 1, parts * microbatches)


def waiting_layers(
    schedule: Schedule, *, stage: int, stages: int, microbatches: int, layers: int, parts: int = 1
) -> float:
    """The same in layers' activations of one microbatch: a stage has `layers`, in so many equal parts."""
    return waiting_parts(schedule, stage=stage, stages=stages, microbatches=microbatches, parts=parts) * layers / parts
