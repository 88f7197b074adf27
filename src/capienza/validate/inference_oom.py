"""The word for a case that ended for want of memory: overflow, borderline or fit; a case that died never fits."""

from __future__ import annotations

from typing import Any

import msgspec

from capienza.errors import InputError, Message
from capienza.predict.inference.engines import serve
from capienza.predict.inference.fit import Word, fit_word
from capienza.predict.inference.serving import Serving
from capienza.validate import reasons
from capienza.validate.row_capacity import Capacity, row_capacity
from capienza.validate.row_case import Case
from capienza.validate.scored import Scored

NOT_DEVICE_MEMORY = (
    "killed by the os",
    "invalid argument",
    "not an oom",
    "pinning",
    "swap pool",
    "host memory",
    "ram ",
)
SEES_IMAGES = ("ConditionalGeneration", "Vision", "VForCausalLM", "_VL", "Omni")


def oom_scored(case: Case, entry: Scored) -> Scored:
    """The entry with its word, or flagged with the reason why it says nothing about the card's memory."""
    capacity = row_capacity(case.row)
    against = case.odd or _other_cause(case.row["oom"]) or case.uncertain_weights
    if against is None and case.problem is not None:
        return msgspec.structs.replace(entry, reason=str(case.problem))
    if against is not None or case.serving is None or capacity is None:
        return msgspec.structs.replace(entry, status="flagged", reason=str(against or reasons.NO_CAPACITY()))
    word = case_word(case, case.serving, capacity)
    if isinstance(word, Message):
        return msgspec.structs.replace(entry, reason=str(word))
    return msgspec.structs.replace(entry, status="scored", reason="", word=word)


def case_word(case: Case, serving: Serving, capacity: Capacity) -> Word | Message:
    """The word for a case on a card of that capacity, or why there is none."""
    asked = msgspec.structs.replace(serving, total_bytes=capacity.total_bytes)
    cards = spread_cards(case.row)
    is_open = has_open_need(case.row) or not capacity.is_least or cards > 1
    try:
        return fit_word(serve(case.engine, asked), cards * capacity.total_bytes, is_open=is_open)
    except InputError as error:
        return reasons.NOT_UNDERSTOOD(why=error.message)


def spread_cards(row: dict[str, Any]) -> int:
    """Cards that hold one copy layer by layer (`device_map`): their readings are sums. 1 where ranks are stated."""
    stated = int(row.get("tp") or 1) * int(row.get("pp") or 1)
    return max(1, int(row.get("num_gpus") or 1)) if stated == 1 and "transformers" in str(row.get("engine")) else 1


def has_open_need(row: dict[str, Any]) -> bool:
    """Is there a part of the need that no figure holds: the images of a vision side?"""
    return any(word in str(row["arch"].get("architecture")) for word in SEES_IMAGES)


def _other_cause(oom: dict[str, Any]) -> Message | None:
    what = str(oom.get("what") or "")
    return reasons.NOT_DEVICE_MEMORY(what=what) if any(word in what.lower() for word in NOT_DEVICE_MEMORY) else None
