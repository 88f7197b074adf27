"""Python call stacks, in the forms in which logs show them.

Standard (`File "x.py", line 3, in f`, the code on the next line), rich (`/x.py:3 in f`, the code beside an arrow) and
pytest (`x.py:3: in f`); behind any prefix, with Unix or Windows paths, whole or cut.
"""

from __future__ import annotations

import re

import msgspec

_STANDARD = re.compile(r'File "([^"]+)", line (\d+)(?:, in (\S+))?')
_SHORT = re.compile(r"(?:^|[\s│┃])((?:[A-Za-z]:)?[^\s:│\"']+\.py):(\d+):? in (?:<module>|`?([\w<>.]+))")
_NAMED = re.compile(r"^\s+in (\w+)\s*$")
_ARROW = re.compile(r"❱\s*\d+\s*[│┃]?\s*(.*)")
_UNDERLINE = re.compile(r"^[\s^~]+$")
_CODE = re.compile(r"^(?:>\s+|\s{2,}|\s+(?=\w+ = )|E?\s*raise )\S")


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One call of a stack: path with forward slashes, function, its line of code ("" where the log lacks it)."""

    path: str
    function: str
    code: str
    line: int
    source: str = ""


def frame_of(words: str) -> tuple[str, str] | None:
    """The path and function that a line names; None when it is no line of a stack."""
    if 'File "' in words:
        match = _STANDARD.search(words)
    elif ".py:" in words:
        match = _SHORT.search(words)
    else:
        return None
    return (match[1].replace("\\", "/"), match[3] or "") if match else None


def function_of(words: str) -> str:
    """The function on a line of its own, where a log was wrapped after the path."""
    match = _NAMED.match(words)
    return match[1] if match else ""


def code_of(words: str) -> str | None:
    """The code on a line below a frame; "" for the underline of a column, None for a line that is no code."""
    if "❱" in words:
        match = _ARROW.search(words)
        return match[1].strip() if match else ""
    if _UNDERLINE.match(words):
        return ""
    return words.strip() if _CODE.match(words) else None
