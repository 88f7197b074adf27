"""Which figure a reading of a training case is, from its counter and the words for its phase."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from capienza.errors import Message
from capienza.validate import training_reasons as reasons
from capienza.validate.row_check import shown
from capienza.validate.row_serving import LARGEST_LOGGED
from capienza.validate.training_words import text

Row = Mapping[str, Any]
LOADED = re.compile(r"model (init|load|setup|\.to)|model\.to|before trainer|module on gpu|^load")
ADAPTED = re.compile(r"after adapters|before trainer")
CONTEXT = re.compile(r"context baseline|1-element tensor|context \+ loaded kernels")
FIRST_STEP = re.compile(r"(the )?(first step|step 1)")
MANY_STEPS = re.compile(r"mean over|percentile")
COUNTERS = {
    "torch_allocated_peak": "allocated_peak",
    "torch_active_peak": "allocated_peak",
    "torch_allocated": "allocated_after",
    "torch_reserved_peak": "reserved_peak",
    "torch_reserved": "reserved_peak",
    "torch_reserved_growth": "reserved_growth",
    "device_used_peak": "device_peak",
}


PROSE = re.compile(r"prose|uses about|readme text|header comment")
STEPPED = re.compile(r"after optimizer step|after training")


def readings(row: Row) -> Iterator[tuple[str, float | None, Message | None]]:
    """The kind of each reading, its bytes, and why it cannot be compared."""
    listed = row.get("measured")
    for place, one in enumerate(listed if isinstance(listed, list) else []):
        if not isinstance(one, Mapping):
            yield "none", None, reasons.NOT_A_READING(key=f"measured[{place}]", found=shown(one))
            continue
        kind, against = _kind(one)
        amount = one.get("bytes")
        if isinstance(amount, int | float) and not isinstance(amount, bool) and 0 < amount < LARGEST_LOGGED:
            yield kind, float(amount), against
        else:
            yield kind, None, against or reasons.NO_BYTES()


def _kind(one: Row) -> tuple[str, Message | None]:
    counter, phase = text(one.get("counter_kind")), text(one.get("phase"))
    kind = COUNTERS.get(counter)
    if kind is None:
        return "unknown", reasons.UNKNOWN_COUNTER(counter=str(one.get("counter"))[:60])
    if PROSE.search(text(one.get("counter"))):
        return kind, reasons.PROSE()
    if kind == "allocated_after" and STEPPED.search(phase):
        kind = "allocated_stepped"
    if MANY_STEPS.search(phase) and kind != "allocated_stepped":
        return kind, reasons.MEAN_OF_STEPS(phase=phase[:60])
    if kind == "device_peak" and CONTEXT.search(phase):
        return "device_context", None
    if kind == "reserved_peak" and FIRST_STEP.fullmatch(phase):
        return "reserved_first", None
    if LOADED.search(phase) or ADAPTED.search(phase):
        start = kind.partition("_")[0]
        if start == "allocated":
            return ("allocated_adapted" if ADAPTED.search(phase) else "allocated_loaded"), None
        return f"{start}_loaded", None
    return kind, None
