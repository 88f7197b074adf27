"""Which phase a call stack is in: a table of calls, and which of two calls on one stack counts.

The innermost known call counts: loading inside sampling is loading, an optimizer's step inside `backward` is a step.
Some phases contain others: the forward pass of a validation is validation, the one that a capture records is capture.
They are given in `CONTAINS`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from capienza.diagnose.call import Call
from capienza.diagnose.calls import CALLS
from capienza.logs.frames import Frame

CONTAINS: dict[str, frozenset[str]] = {
    "eval": frozenset({"serve", "forward", "whole", "prefill", "decode", "generate", "logits"}),
    "graph_capture": frozenset({"serve", "forward", "whole", "profile_warmup", "prefill", "decode", "startup"}),
    "profile_warmup": frozenset({"serve", "forward", "whole", "prefill", "decode", "generate", "startup"}),
    "backward": frozenset({"forward", "whole"}),
    "prefill": frozenset({"serve", "forward", "whole", "generate"}),
    "decode": frozenset({"serve", "forward", "generate"}),
    "generate": frozenset({"forward"}),
    "checkpoint": frozenset({"forward", "load", "communication"}),
    "load": frozenset({"forward", "data"}),
    "data": frozenset({"forward", "startup"}),
    "serve": frozenset({"forward"}),
    "whole": frozenset({"forward"}),
    "step": frozenset({"forward"}),
}
"""Outer phase to the inner ones that it takes over. `generate`, `serve`, `step`, `whole` are none: see `STANDS_FOR`."""

STANDS_FOR = {"teardown": "unknown", "generate": "unknown", "serve": "unknown", "step": "unknown"}
"""Prefill or decode, or any part of a training step: the stack alone does not tell."""


SERVERS = re.compile(r"(?:^|/)(?:vllm|sglang|text_generation_server|lmdeploy|tensorrt_llm)/")
"""Paths of engines that only serve."""


class Found(msgspec.Struct, frozen=True):
    """The phase of a stack, the call that tells, and whether only a weak sign (a plain forward call) tells."""

    phase: str
    frame: Frame
    is_weak: bool
    topic: str = ""
    is_teardown: bool = False


def phase_of(stack: Sequence[Frame]) -> Found | None:
    """The phase of a stack, outermost call first. None where no call is known."""
    found: Found | None = None
    topic = ""
    is_served = any(SERVERS.search(frame.path) for frame in stack)
    for frame in reversed(stack):
        call = known_call(frame)
        if call is None:
            continue
        is_served = is_served or call.phase in ("generate", "serve")
        if found is None:
            topic = call.topic
            found = Found(call.phase, frame, call.is_weak, topic)
        elif found.phase in CONTAINS.get(call.phase, ()) and not (call.is_weak and not found.is_weak):
            found = Found(call.phase, frame, call.is_weak, topic)
    if found is None:
        return None
    phase = STANDS_FOR.get(found.phase, found.phase)
    if phase == "whole":
        phase = "prefill" if is_served else "forward"
    elif phase == "forward" and is_served:
        phase = "unknown"
    return Found(phase, found.frame, found.is_weak, topic, found.phase == "teardown")


def known_call(frame: Frame) -> Call | None:
    """The row of a call; None for one that says nothing of a phase."""
    for call in CALLS:
        if _matches(call, frame):
            return call
    return None


def _matches(call: Call, frame: Frame) -> bool:
    if call.function is not None and (not frame.function or not call.function.fullmatch(frame.function)):
        return False
    if call.path is not None and not call.path.search(frame.path):
        return False
    return call.code is None or bool(frame.code and call.code.search(frame.code))
