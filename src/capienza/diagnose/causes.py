"""The cause of a failure: what its line states, what its figures show, else what its phase fills memory with."""

from __future__ import annotations

from capienza.diagnose.arithmetic import (
    is_fragmentation,
    is_other_process,
    is_roomy,
    is_taken,
    is_unit_confusion,
    may_be_shared,
)
from capienza.diagnose.choose import Event
from capienza.diagnose.filled import FILLED_BY
from capienza.diagnose.phases import Place
from capienza.logs.said import Memory

TOPICS = {
    "logits": "logits",
    "eval": "eval_accumulation",
    "gather": "save_gather",
    "save": "save_gather",
    "merge": "loading_transient",
    "copy": "loading_transient",
    "optimizer": "optimizer_state",
}
"""What the call that tells the phase works on, where that fills memory rather than what the phase usually does."""
TELLING = ("load", "forward", "prefill", "eval", "checkpoint", "backward")


def cause_of(event: Event, place: Place, figures: dict[str, int]) -> tuple[str, Memory]:
    """The cause, and which memory ran out."""
    lines = (event.failure, *event.beside)
    no_memory = next((one for one in lines if one.row.memory == "no" and one.row.cause == "not_memory"), None)
    memory: Memory = event.failure.row.memory
    if memory == "device" and no_memory is not None and is_roomy(figures):
        return "not_memory", "no"
    if memory == "device" and is_roomy(figures):
        return "unknown", "unknown"
    stated = _stated(event, figures)
    if stated:
        return stated, memory
    if memory == "unknown":
        memory = next((one.row.memory for one in event.beside if one.row.rank == "cause"), memory)
    if memory != "device":
        return "unknown", memory
    if is_other_process(figures, is_shared=may_be_shared(event.failure.text)):
        return "other_process", memory
    if is_fragmentation(figures):
        return "fragmentation", memory
    topic = TOPICS.get(place.topic, "") if place.phase in TELLING else ""
    return topic or FILLED_BY.get(place.phase, "unknown"), memory


def _stated(event: Event, figures: dict[str, int]) -> str:
    if is_unit_confusion(figures):
        return "unit_confusion"
    stated = event.failure.row.cause or next(
        (one.row.cause for one in event.beside if one.row.cause and one.row.rank == "cause"
         and one.row.memory == event.failure.row.memory), ""
    )  # fmt: skip
    if stated == "configuration" and event.failure.row.memory == "device" and is_taken(figures):
        return "other_process"
    return stated
