"""The one vocabulary of phases, used by ledgers, logs, cases and `--failed` alike."""

from __future__ import annotations

import enum


class Phase(enum.StrEnum):
    """When memory is live. The order is that of a run."""

    STARTUP = "startup"
    LOAD = "load"
    PROFILE_WARMUP = "profile_warmup"
    GRAPH_CAPTURE = "graph_capture"
    KV_CACHE_ALLOCATION = "kv_cache_allocation"
    PREFILL = "prefill"
    DECODE = "decode"
    FORWARD = "forward"
    BACKWARD = "backward"
    OPTIMIZER_STEP_FIRST = "optimizer_step_first"
    OPTIMIZER_STEP_STEADY = "optimizer_step_steady"
    EVAL = "eval"
    CHECKPOINT = "checkpoint"
    EXPORT = "export"
    COMMUNICATION = "communication"
    DATA = "data"
    ENVIRONMENT = "environment"
    UNKNOWN = "unknown"


OTHER_NAMES = {"validation": Phase.EVAL, "save": Phase.CHECKPOINT}
"""Words by which programs and people call some of them."""
INFERENCE_PHASES = (Phase.LOAD, Phase.PREFILL, Phase.DECODE)
TRAINING_PHASES = (
    Phase.LOAD,
    Phase.FORWARD,
    Phase.BACKWARD,
    Phase.OPTIMIZER_STEP_FIRST,
    Phase.OPTIMIZER_STEP_STEADY,
    Phase.EVAL,
    Phase.CHECKPOINT,
    Phase.EXPORT,
)
