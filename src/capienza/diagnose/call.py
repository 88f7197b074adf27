"""One row of the tables of calls."""

from __future__ import annotations

import re

import msgspec


class Call(msgspec.Struct, frozen=True, gc=False):
    """A known call: every pattern given must match (function in full, path and code anywhere).

    `topic` is what the call works on where that tells the cause, such as logits; a weak row says only that the model
    computes.
    """

    phase: str
    function: re.Pattern[str] | None
    path: re.Pattern[str] | None
    code: re.Pattern[str] | None
    topic: str = ""
    is_weak: bool = False


def call(
    phase: str, function: str = "", path: str = "", code: str = "", topic: str = "", *, is_weak: bool = False
) -> Call:
    """A row; a pattern that is not given matches anything."""
    return Call(phase, _pattern(function), _pattern(path), _pattern(code), topic, is_weak)


def _pattern(text: str) -> re.Pattern[str] | None:
    return re.compile(text) if text else None
