"""What stands before a line's own words: which process wrote it, and how grave it calls itself.

Ranks and workers share one log. Each has its own call stack, so lines are told apart by the name in front of them:
`[rank3]:` (torchrun), `(EngineCore_DP0 pid=17)` (vLLM, Ray), `[1,3]<stderr>:` (Open MPI), `[2026-01-05 06:12:41 TP0]`
(SGLang), `[TRT-LLM] [RANK 2]`, `3: ` (srun --label).
"""

from __future__ import annotations

import re
from typing import NamedTuple

_PREFIXES = re.compile(
    r"""
      \(?(?P<worker>[A-Za-z_][\w.-]*[ ]pid=\d+)(?:,[ ]ip=[^)]*)?\)[ ]?
    | \[(?P<rank>rank\d+)\]:[ ]?
    | \[(?P<mpi>\d+,\d+)\]<std(?:err|out)>:[ ]?
    | (?P<srun>\d{1,4}):[ ]
    | \[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?
      (?:[ ](?P<part>(?:DP\d+[ ])?(?:TP|PP|EP)\d+))?\]?:?[ ]?
      (?:std(?:err|out)[ ][FP][ ]|(?:-[ ][\w.]+[ ])?-[ ](?:INFO|WARNING|ERROR|CRITICAL|DEBUG)[ ]-[ ](?:[\w.]+[ ]-[ ])?
        |\|[ ](?:INFO|WARNING|ERROR|CRITICAL|DEBUG)[ ]+\|[ ][\w.:<>]+[ ]-[ ])?
    | \[\d\d:\d\d:\d\d(?:[.,]\d+)?(?:[ ](?P<turn>(?:DP\d+[ ])?(?:TP|PP|EP)\d+))?\][ ]
    | \[(?:Trace|Debug|Info|Warning|Error|Fatal)\][ ](?:\(\w+\)[ ])?
    | \[\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d\][ ]
    | \[TRT-LLM\][ ]
    | \[(?P<trt>RANK[ ]\d+)\][ ]
    | (?:INFO|WARNING|ERROR|CRITICAL|DEBUG)[ ]\d\d-\d\d[ ]\d\d:\d\d:\d\d[ ](?:\[[\w./]+:\d+\][ ]?|[\w./]+:\d+\][ ]?)
    | [A-Z][a-z]{2}[ ]{1,2}\d{1,2}[ ]\d\d:\d\d:\d\d[ ]\S+[ ][\w.@/-]+(?:\[\d+\])?:[ ]?
    | (?:[\w.-]{1,58}-\d+[ ]+\|[ ]|[\w.-]{2,60}[ ]+\|[ ](?=\D))
    | [│┃|>][ ](?=[^|])
    """,
    re.VERBOSE,
)
_STARTS = frozenset("(>[0123456789│┃|IWECDTRabcdefghijklmnopqrstuvwxyzABFGHJKLMNOPQSUVXYZ")
_LEVELS = re.compile(
    r"\b(?:(?P<error>ERROR|CRITICAL|FATAL|SEVERE)|(?P<warning>WARN(?:ING)?)|(?P<info>INFO|DEBUG|TRACE|NOTICE))\b"
    r"|^(?:[IWEF](?P<glog>)\d{4}) |: (?P<tf>[IWEF]) (?=tensorflow|external)"
)
_WARNED = re.compile(r"\b[A-Z]\w*Warning: |^(?:Warning|warning): |\bwarning: failed|\| WARNING: |^WARNING: ")


class Marked(NamedTuple):
    """A line taken apart: the process that wrote it ("" when unnamed), and its own words."""

    source: str
    words: str


def taken_apart(text: str) -> Marked:
    """The source and words of a line."""
    source, rest = "", text
    for _ in range(5):
        if not rest or rest[0] not in _STARTS:
            break
        match = _PREFIXES.match(rest)
        if match is None:
            break
        if match.lastgroup:
            source = match[match.lastgroup] or source
        rest = rest[match.end() :]
    return Marked(source, rest.rstrip("│┃ ") if rest[-1:] in "│┃" else rest)


def level_of(text: str, words: str) -> str:
    """How grave a line calls itself: info, warning, error, or "" where it does not say."""
    words_at = len(text) - len(words)
    if ("arning" in text or "WARNING" in text) and _WARNED.search(text):
        return "warning"
    head = text[: words_at + 48]
    match = _LEVELS.search(head)
    if match is None:
        return ""
    name = match.lastgroup or ""
    if name == "glog":
        return {"I": "info", "W": "warning"}.get(text[0], "error")
    if name == "tf":  # it warns of what then ends the run
        return {"I": "info", "W": ""}.get(match["tf"], "error")
    return name
