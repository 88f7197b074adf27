"""Pipeline stages on the fake group: what a stage would learn from the stages after it is taken from itself.

The shapes of what a stage gets in the forward pass come from the stage before, by the mail of the ranks that were
traced earlier. Gradients come back in the shapes of its own outputs; and whether every stage was given its shapes
is taken to hold for all where it holds for this one. Seen with torch 2.13 (torch/distributed/pipelining/stage.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.distributed.pipelining import stage

stages: Any = stage
"""Much of it is not declared for others to use."""
GRADIENTS = "PipelineStage._recv_meta"
NAMES = ("_recv_meta", "_warmup_forward_vote", "_warmup_backward_result")


def changes(note: Callable[[str], None]) -> list[tuple[Any, str, Any]]:
    """What is changed in PyTorch; nothing in a release whose stages learn shapes in another way."""
    kind = stages.PipelineStage
    if not all(hasattr(kind, name) for name in NAMES):
        return []
    received = kind._recv_meta
    votes: dict[int, int] = {}

    def receive(own: Any, source: int) -> Any:
        if source < own.stage_index:
            return received(own, source)
        note(GRADIENTS)
        return stages._StageBackwardMeta(backward_metas=stages._derive_grad_metas(own._stage_meta.outputs))

    def vote(own: Any, has_backward: bool, **_received: Any) -> torch.Tensor:
        votes[id(own)] = 0 if stages.InferenceMode.needs_dynamic(own._user_meta, has_backward) else 1
        return result(own)

    def result(own: Any, *_received: Any, **_named: Any) -> torch.Tensor:
        return torch.tensor([votes[id(own)]], dtype=torch.int32, device=own.device)

    return list(zip((kind,) * len(NAMES), NAMES, (receive, vote, result), strict=True))
