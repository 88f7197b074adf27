"""Pipeline stages on the fake group: what a stage would learn from the stages after it is taken from itself.

The shapes of what a stage gets in the forward pass come from the stage before, by the mail of the ranks that were
traced earlier. Gradients come back in the shapes of its own outputs; and whether every stage was given its shapes
is taken to hold for all where it holds for this one. Seen with torch 2.13 (torch/distributed/pipelining/stage.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.distributed.pipelining import stage as stages

GRADIENTS = "PipelineStage._recv_meta"
NAMES = ("_recv_meta", "_warmup_forward_vote", "_warmup_backward_result")


def changes(note: Callable[[str], None]) -> list[tuple[Any, str, Any]]:
    """What is changed in PyTorch; nothing in a release whose stages learn shapes in another way."""
    kind = stages.PipelineStage
    if not all(hasattr(kind, name) for name in NAMES):
        return []
    received = kind._recv_meta
    votes: dict[int, int] = {}

    def receive(stage: Any, source: int) -> Any:
        if source < stage.stage_index:
            return received(stage, source)
        note(GRADIENTS)
        return stages._StageBackwardMeta(backward_metas=stages._derive_grad_metas(stage._stage_meta.outputs))

    def vote(stage: Any, has_backward: bool, **_received: Any) -> torch.Tensor:
        votes[id(stage)] = 0 if stages.InferenceMode.needs_dynamic(stage._user_meta, has_backward) else 1
        return result(stage)

    def result(stage: Any, *_received: Any, **_named: Any) -> torch.Tensor:
        return torch.tensor([votes[id(stage)]], dtype=torch.int32, device=stage.device)

    return list(zip((kind,) * len(NAMES), NAMES, (receive, vote, result), strict=True))
