"""Values that no run can have, found before anything is predicted and said by key and value.

What a case states enters the prediction as it stands, so a value that cannot be is never replaced by a default: the
case is listed, and skipped. A figure that was logged is read by `unread_figure` in the same way.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from capienza.card.options import accepted_by, plain_name
from capienza.errors import Message, phrase, template
from capienza.validate.row_serving import DTYPES, LARGEST_LOGGED, UNITS, unit_bytes

Row = Mapping[str, Any]

IMPOSSIBLE = template("validate.impossible", "{key} is {found}, which no run has; accepted: {accepted}")
NOT_A_FIGURE = template("validate.not-a-figure", "{key} is {found}; a figure is a value with its unit_logged")
BAD_FIGURE = template("validate.bad-figure", "the value of {key} is {found}; accepted: a number from 0 to 1e18")
BAD_UNIT = template("validate.bad-unit", "the unit of {key} is {found}; accepted: {accepted}")
ZERO = template("validate.zero", "{key} is 0: there is nothing to divide by")
TOTAL = "total_gpu_memory"
SHOWN = 40
MAX_RANKS = 2**20


class Accepted(msgspec.Struct, frozen=True):
    """What a key takes: in words, and as a test of its value."""

    text: str
    takes: Callable[[Any], bool]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value < LARGEST_LOGGED


COUNT = Accepted(phrase("a whole number of at least 1"), _is_count)
SHARE = Accepted(phrase("a share above 0, at most 1"), lambda value: _is_number(value) and 0 < value <= 1)
AMOUNT = Accepted(phrase("a number of at least 0"), lambda value: _is_number(value) and 0 <= value < LARGEST_LOGGED)
FLAG = Accepted(phrase("true or false"), lambda value: isinstance(value, bool))
DTYPE = Accepted(", ".join(DTYPES), lambda value: isinstance(value, str) and value in DTYPES)
OF_ROW = {
    "gpu_memory_utilization": SHARE,
    "enforce_eager": FLAG,
    **dict.fromkeys(("max_model_len", "max_num_seqs", "max_num_batched_tokens", "block_size"), COUNT),
}
OF_FLAGS = OF_ROW | dict.fromkeys(("batch", "generated_tokens", "max_new_tokens", "prompt_tokens"), COUNT)
OF_LORA = dict.fromkeys(("rank", "max_loras"), COUNT)
ABOVE_ZERO = phrase("a number above 0")
RANKS = Accepted(phrase("a whole number from 1 to 1048576"), lambda value: _is_count(value) and value <= MAX_RANKS)
NOT_GIVEN = "default"
"""How a case's flags quote an option that the run left at its default."""


def impossible(row: Row) -> Message | None:
    """The first value that no run can have; None when there is none."""
    return next(_impossible(row), None)


def _impossible(row: Row) -> Iterator[Message]:
    yield from _checked(row, {**OF_ROW, "dtype": DTYPE}, "")
    yield from _checked(row.get("arch") or {}, {"extra_params_m": AMOUNT}, "arch.")
    yield from _checked(row.get("lora") or {}, OF_LORA, "lora.")
    flags = {plain_name(name): value for name, value in (row.get("flags") or {}).items()}
    yield from _checked(flags, OF_FLAGS, "flags.")
    for name, value in flags.items():
        known = None if name in OF_FLAGS else accepted_by(name)
        is_left = value is None or str(value).startswith(NOT_GIVEN)
        if known is not None and not is_left and (isinstance(value, list | dict) or not known.takes(value)):
            yield IMPOSSIBLE(key=f"flags.{name}", found=shown(value), accepted=known.text)
    total = unread_figure(row, TOTAL, has_unit=True)
    if total is not None:
        yield IMPOSSIBLE(key=f"measured.{TOTAL}", found="0", accepted=ABOVE_ZERO) if total.code == ZERO.code else total


def _checked(stated: Row, rules: Mapping[str, Accepted], start: str) -> Iterator[Message]:
    for name, accepted in rules.items():
        value = stated.get(name)
        if value is not None and not accepted.takes(value):
            yield IMPOSSIBLE(key=f"{start}{name}", found=shown(value), accepted=accepted.text)


def odd_ranks(row: Row) -> Message | None:
    """What is wrong with a number of GPUs or ranks, whatever the engine; None when nothing is."""
    return next(_checked(row, dict.fromkeys(("tp", "pp", "num_gpus"), RANKS), ""), None)


def unread_figure(row: Row, name: str, *, has_unit: bool) -> Message | None:
    """Why a logged figure that stands in the case can be neither used nor compared; None when it can, or is not there.

    `has_unit`: the figure is bytes, in a unit that the case states.
    """
    figure, key = row["measured"].get(name), f"measured.{name}"
    if figure is None or (isinstance(figure, Mapping) and figure.get("value") is None):
        return None
    if not isinstance(figure, Mapping):
        return NOT_A_FIGURE(key=key, found=shown(figure))
    value = figure["value"]
    if not _is_number(value) or not 0 <= value < LARGEST_LOGGED:
        return BAD_FIGURE(key=key, found=shown(value))
    if value == 0:
        return ZERO(key=key)
    if has_unit and unit_bytes(figure) is None:
        unit = figure.get("true_unit") or figure.get("unit_logged")
        return BAD_UNIT(key=key, found=shown(unit), accepted=tuple(UNITS))
    return None


def shown(value: Any) -> str:
    """A value as JSON writes it, cut short."""
    text = json.dumps(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
