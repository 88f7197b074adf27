"""How a refused value is described: what was found, and what was probably meant."""

from __future__ import annotations

import json
from collections.abc import Iterable
from decimal import Decimal

from capienza.errors import Message, with_suggestion
from capienza.yamlmarks import Node, Scalar, Unreadable

MAX_SHOWN = 60
Value = Scalar | list[Node] | dict[str, Node] | Unreadable
"""What a node may hold."""


class Refused(Exception):  # noqa: N818 - never reaches a user: the walk adds the place and reports it
    """A value is not accepted: why, and what was probably meant."""

    def __init__(self, message: Message, suggestion: str | tuple[str, str] | None = None) -> None:
        super().__init__(message, suggestion)
        self.message = with_suggestion(message, suggestion)


def closest(found: str, accepted: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The accepted word most like the one found, None when none is at least `cutoff` alike (1 = the same)."""
    import difflib

    by_folded = {word.casefold(): word for word in accepted}
    matches = difflib.get_close_matches(found.casefold()[:100], by_folded, n=1, cutoff=cutoff)
    return by_folded[matches[0]] if matches else None


def shown(value: Value) -> str:
    """A value as the person who wrote it knows it, cut to a readable length."""
    if isinstance(value, str):
        cut = value if len(value) <= MAX_SHOWN else f"{value[: MAX_SHOWN - 3]}..."
        return json.dumps(cut, ensure_ascii=False)
    if isinstance(value, list):
        return "[...]"
    if isinstance(value, dict):
        return "{...}"
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    return f"{value:f}" if isinstance(value, Decimal) else str(value)
