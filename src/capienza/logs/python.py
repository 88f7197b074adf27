"""The last line of a traceback: an exception by its class, for whatever no other table knows."""

from __future__ import annotations

import re

from capienza.logs.said import Said, said

_LAST = re.compile(
    r"^\s*(?:E\s+)?(?:\S{1,60}\s)?((?:[A-Za-z_]\w*\.)*(?:[A-Z]\w*(?:Error|Exception|Interrupt|Failure)|StopIteration|SystemExit|Exception|AssertionError))(?::\s|$)"
)
_NO_MEMORY = frozenset({
    "KeyError", "AttributeError", "TypeError", "NameError", "IndexError", "FileNotFoundError", "PermissionError",
    "NotImplementedError", "UnboundLocalError", "ZeroDivisionError", "IsADirectoryError", "NotADirectoryError",
    "UnicodeDecodeError", "JSONDecodeError", "SyntaxError", "IndentationError", "RecursionError", "FileExistsError",
    "JinjaError", "TemplateError", "ValidationError", "StrictDataclassClassValidationError", "HFValidationError",
    "ModuleNotFoundError", "ImportError", "ConnectionError", "BrokenPipeError", "EOFError", "TimeoutError",
    "ScannerError", "ParserError", "OverflowError", "KeyboardInterrupt",
})  # fmt: skip
_OFTEN_NO_MEMORY = frozenset({"ValueError", "AssertionError"})
_MEMORY = re.compile(
    r"memor|alloc|\b(?:fits?|space|GPUs?|RAM|cache|buffer|devices?|load|create)\b|[KMGT]i?B\b", re.IGNORECASE
)
"""Words that a lack of memory would bring into the text of an exception of those classes."""
_ENVIRONMENT = frozenset({"ModuleNotFoundError", "ImportError"})

MISSING = said("python.import", "", rank="error", phase="environment", cause="compatibility", memory="no")
CODE = said("python.no-memory", "", rank="error", cause="not_memory", memory="no")
OTHER = said("python.exception", "", rank="error")
CUT = said("python.cut", "", rank="error")
"""A traceback that ends before its last line."""


def is_never_memory(row: Said) -> bool:
    """An exception whose class says that no memory ran out, whatever words its text quotes."""
    return row is MISSING or row is CODE


def exception_of(words: str) -> Said | None:
    """The row of a line that ends a traceback; None for another line."""
    if "Error" not in words and "Exception" not in words and "Interrupt" not in words:
        return None
    match = _LAST.match(words)
    if match is None:
        return None
    name = match[1].rpartition(".")[2]
    if name in _ENVIRONMENT:
        return MISSING
    if name in _OFTEN_NO_MEMORY and words[match.end() :].strip() and not _MEMORY.search(words, match.end()):
        return CODE
    return CODE if name in _NO_MEMORY else OTHER
