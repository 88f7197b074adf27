"""Releases of engines as cards and logs name them, and whose rules a release is taken by."""

from __future__ import annotations

import functools
import re

import msgspec

Number = tuple[int, int, int]
_NUMBER = r"(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}|x))?"
_ALONE = re.compile(rf"\s*(?:version\s+)?(?:commit\s+[0-9a-f]+\s*\()?[~v]?\s*{_NUMBER}(?!\d)", re.ASCII | re.IGNORECASE)
"""A text that begins with a release, or gives one in brackets beside a commit."""
_BETWEEN = r"(?:[\s=:/v~-]|openai|release|version|api|server){0,40}"
"""What stands between a name and its release in logs, packages and images: vllm-openai:v0.11.2."""
NAMES = {"tgi": "tgi|text-generation-(?:inference|launcher)", "tensorrt-llm": "tensorrt[-_ ]?llm"}
"""Other spellings of an engine's name in such texts."""


class Read(msgspec.Struct, frozen=True):
    """The first and the last release of an engine whose rules were read."""

    oldest: Number
    newest: Number

    def nearest(self, number: Number) -> Number | None:
        """The release whose rules another is taken by; None within what was read. A patch changes no rule."""
        if number[:2] < self.oldest[:2]:
            return self.oldest
        return self.newest if number[:2] > self.newest[:2] else None


def release(text: str | None, engine: str) -> Number | None:
    """The release that a text names: behind the engine's name, else at its start; None where it names none."""
    found = _behind(engine).search(text or "") or _ALONE.match(text or "")
    if found is None:
        return None
    major, minor, patch = found.groups()
    return int(major), int(minor), 0 if patch in (None, "x") else int(patch)


@functools.cache
def _behind(engine: str) -> re.Pattern[str]:
    name = NAMES.get(engine, re.escape(engine))
    return re.compile(rf"(?<![a-z])(?:{name}){_BETWEEN}{_NUMBER}(?!\d)", re.ASCII | re.IGNORECASE)
