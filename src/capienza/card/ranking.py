"""How the card orders what can be chosen: figures in turn, and how near two of them count as equal.

    ranking: [{by: cost, within: 2 %}, {by: margin, within: 1 GiB}, {by: finish, within: 12 h}, {by: preferences}]

Each figure has a unit of its own for `within`: a share for the cost, a size for the margin, hours for the finish.
"""

from __future__ import annotations

import re
from decimal import Decimal

from capienza.card.kinds import Kind
from capienza.card.model import Figure, Threshold, Within
from capienza.card.problems import Refused, Value, shown
from capienza.card.quantities import read_size
from capienza.errors import Message, template
from capienza.units import UNITS, Bytes

MAX_PERCENT = Decimal(100)
MAX_HOURS = Decimal(100_000)
PREFERENCES: Figure = "preferences"
PERCENT: Threshold = "%"
SIZE: Threshold = "B"
HOURS: Threshold = "h"
UNIT_OF: dict[Figure, Threshold] = {"cost": PERCENT, "margin": SIZE, "finish": HOURS}
EXAMPLES = {"cost": "2 %", "margin": "1 GiB", "finish": "12 h"}

NOT_WITHIN = template(
    "card.not-within",
    "expected a share such as 2 %, a size such as 1 GiB, or hours such as 12 h, got {found}",
    "Write a number and its unit: % for cost, GiB for margin, h for finish.",
)
WITHIN_RANGE = template(
    "card.within-out-of-range",
    "expected at most {maximum}, got {found}",
    "Figures that far apart are not equal.",
)
WRONG_UNIT = template(
    "card.within-wrong-unit",
    "expected {accepted} beside by: {figure}, got {found}",
    "Each figure has its own unit: % for cost, GiB for margin, h for finish.",
)
NO_WITHIN = template(
    "card.within-of-preferences",
    "preferences are met or not, and take no within",
    "Delete within.",
)
TWICE = template("card.ranking-twice", "{found} is already ranked by on line {line}", "Keep one of the two.")
NOT_LAST = template(
    "card.preferences-not-last",
    "preferences only decide between equals, so they come last",
    "Move by: preferences to the end.",
)
NOTHING_RANKED = template(
    "card.ranking-empty", "expected at least one figure, got an empty list", "Delete ranking for the usual order."
)

_WITHIN = re.compile(r"\s*([0-9]{1,12}(?:\.[0-9]{1,6})?)\s*(%|h)\s*", re.ASCII)


def read_within(value: Value) -> Within:
    """A share, a size or hours. Raises `Refused`."""
    text = value if isinstance(value, str) else ""
    match = _WITHIN.fullmatch(text) if len(text) <= 64 else None
    if match is None:
        return Within(Decimal(_size(value)), SIZE)
    amount, unit = Decimal(match[1]), PERCENT if match[2] == PERCENT else HOURS
    most = MAX_PERCENT if unit == PERCENT else MAX_HOURS
    if amount > most:
        raise Refused(WITHIN_RANGE(maximum=f"{most} {unit}", found=shown(value)))
    return Within(amount, unit)


def _size(value: Value) -> Bytes:
    try:
        return read_size(value)
    except Refused as refused:
        if refused.message.code == "card.size-too-large":
            raise
        raise Refused(NOT_WITHIN(found=shown(value)), _meant(value)) from None


def _meant(value: Value) -> str | None:
    """What "2%." or "12 hours" probably stand for."""
    match = re.fullmatch(
        r"\s*([0-9]{1,12}(?:\.[0-9]{1,6})?)\s*(percent|hours?|hrs?|d|days?)\s*", str(value)[:40].lower()
    )
    if match is None:
        return None
    amount, word = Decimal(match[1]), match[2]
    if word == "percent":
        return f"{amount} %"
    return f"{amount * 24 if word.startswith('d') else amount} h"


_SIZES = "|".join(UNITS)
WITHIN = Kind(
    text="share, size or hours: 2 %, 1 GiB, 12 h",
    schema={"type": "string", "pattern": rf"^\s*[0-9]+(\.[0-9]+)?\s*(%|h|{_SIZES})\s*$"},
    convert=read_within,
)


def unit_problem(by: Figure, within: Within, written: Value) -> Message | None:
    """Why a threshold, as `written`, does not go with its figure; None where it does."""
    if by == PREFERENCES:
        return NO_WITHIN()
    if within.unit == UNIT_OF[by]:
        return None
    return WRONG_UNIT(accepted=EXAMPLES[by], figure=by, found=shown(written))
