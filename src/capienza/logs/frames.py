"""Python call stacks, in the forms in which logs show them.

    Python    File "x.py", line 3, in f         the code on the next line; no last comma in a dump
    rich      /x.py:3 in f                      the code beside an arrow, among its neighbours
    IPython   File /x.py:3, in C.f(a)  or  /x.py in f(a)        the same, with another arrow; Colab links the path
    pytest    x.py:3: in f

Behind any prefix, with Unix or Windows paths, wrapped after `in`, or all on one line.
"""

from __future__ import annotations

import re

import msgspec

_STANDARD = re.compile(r'File "([^"]+)", line (\d+)(?:,? in(?: (\S+)|$))?')
_SHORT = re.compile(r"(?:^|[\s│┃])((?:[A-Za-z]:)?[^\s:│\"']+\.py):(\d+):?,? in\b(?: (?:<module>|`?([\w<>.]+)))?")
_NOTEBOOK = re.compile(r"^\[?([^\s\]]+\.py|<ipython-input-[^>]*>)(?:\]\(\S*\))? in ([\w<>.]+)\(")
_NAMED = re.compile(r"^\s*(?:in )?([A-Za-z_<]\w*>?)\s*$")
_ARROW = re.compile(r"(?:❱|-*>)\s*\d+\s*(.*)")
_POINTED = re.compile(r"\s*(?:❱|-*>\s*\d+\s)")
_NEIGHBOUR = re.compile(r"^\s*\d+(?:\s|$)|^\s*[╭╰─│┃|]*\s*$")
_UNDERLINE = re.compile(r"^[\s^~]+$")
_CODE = re.compile(r"^(?:>\s+|\s+|E?\s*raise )\S")
_BARS = " │┃|\t"
BARS = ("│", "┃")
"""What a line in a box begins with."""
_CUT_PATH = re.compile(r"\s*(?:/|[A-Za-z]:[\\/])[^\s:]{20,}\s*$")


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One call of a stack: path with forward slashes, function, its line of code ("" where the log lacks it)."""

    path: str
    function: str
    code: str
    line: int
    source: str = ""


class Call(msgspec.Struct, frozen=True, gc=False):
    """A line that names a call, before its code has come; `is_boxed` where the code stands among its neighbours."""

    path: str
    function: str
    is_boxed: bool


def call_of(words: str) -> Call | None:
    """The call that a line names; None when it is no line of a stack."""
    if 'File "' in words:
        match, is_boxed = _STANDARD.search(words), False
    elif ".py:" in words:
        match, is_boxed = _SHORT.search(words), True
    elif " in " in words:
        match, is_boxed = _NOTEBOOK.match(words), True
        return Call(match[1].replace("\\", "/"), _last(match[2]), is_boxed) if match else None
    else:
        return None
    return Call(match[1].replace("\\", "/"), _last(match[3] or ""), is_boxed) if match else None


def _last(name: str) -> str:
    """The function of `Class.function`."""
    return name.partition("(")[0].rpartition(".")[2] if "." in name or "(" in name else name


def calls_on_one_line(words: str) -> list[tuple[Call, str]]:
    """The calls, each with its code, of a stack that lost its line feeds."""
    found = list(_STANDARD.finditer(words))
    ends = [*(match.start() for match in found[1:]), len(words)]
    return [
        (Call(match[1].replace("\\", "/"), _last(match[3] or ""), False), words[match.end() : end].strip()[:200])
        for match, end in zip(found, ends, strict=True)
    ]


def is_cut_path(words: str) -> bool:
    """Is it the first half of a path that a box was too narrow for?"""
    return _CUT_PATH.match(words) is not None


def function_of(words: str) -> str:
    """The function on a line of its own, where a log was wrapped after the path."""
    match = _NAMED.match(words.strip(_BARS))
    return match[1] if match else ""


def is_neighbour(words: str) -> bool:
    """Is it a line of code beside the one that was called, or the frame around them?"""
    return not _POINTED.match(words) and bool(_NEIGHBOUR.match(words))


def code_of(words: str) -> str | None:
    """The code on a line below a frame; "" for the underline of a column, None for a line that is no code."""
    if _POINTED.match(words):
        match = _ARROW.search(words)
        return match[1].strip(_BARS) if match else ""
    if _UNDERLINE.match(words):
        return ""
    return words.strip() if _CODE.match(words) else None
