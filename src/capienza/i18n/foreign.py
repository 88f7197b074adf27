"""What the system and the parsers of libraries say in English only, in the reader's language.

Their words come into our sentences as `problem` or `reason`. A text that is in no row stays as it is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from capienza.i18n.mark import mark

if TYPE_CHECKING:
    from capienza.i18n.translator import Say

PARAMETERS = ("problem", "reason")
WHOLE = frozenset({
    # Of the system: errno.
    mark("No such file or directory"), mark("Permission denied"), mark("Operation not permitted"),
    mark("Is a directory"), mark("Not a directory"), mark("File exists"), mark("File name too long"),
    mark("No space left on device"), mark("Disk quota exceeded"), mark("Read-only file system"),
    mark("Input/output error"), mark("Too many open files"), mark("Too many levels of symbolic links"),
    mark("Broken pipe"), mark("Invalid argument"), mark("Argument list too long"), mark("Exec format error"),
    mark("Text file busy"), mark("Device or resource busy"), mark("Cannot allocate memory"), mark("No such device"),
    mark("No such device or address"), mark("Directory not empty"), mark("File too large"), mark("Stale file handle"),
    mark("Connection refused"), mark("Connection timed out"), mark("Connection reset by peer"),
    mark("Network is unreachable"), mark("embedded null byte"),
    # Of the driver's library.
    mark("NVML Shared Library Not Found"), mark("Driver Not Loaded"), mark("Insufficient Permissions"),
    mark("Not Supported"), mark("GPU is lost"), mark("Unknown Error"), mark("Driver/library version mismatch"),
    # Of JSON's parsers.
    mark("Input data was truncated"), mark("Expecting value"),
    mark("Expecting property name enclosed in double quotes"), mark("Expecting ',' delimiter"),
    mark("Expecting ':' delimiter"), mark("Unterminated string starting at"), mark("Invalid control character at"),
    mark("Invalid \\escape"), mark("Extra data"), mark("Illegal trailing comma before end of object"),
    mark("Illegal trailing comma before end of array"), mark("RecursionError"),
    # Of YAML's.
    mark("did not find expected ',' or ']'"), mark("did not find expected ',' or '}'"),
    mark("did not find expected key"), mark("did not find expected '-' indicator"),
    mark("did not find expected <document start>"), mark("did not find expected alphabetic or numeric character"),
    mark("could not find expected ':'"), mark("mapping values are not allowed in this context"),
    mark("mapping values are not allowed here"), mark("block sequence entries are not allowed in this context"),
    mark("found character that cannot start any token"), mark("found unexpected end of stream"),
    mark("found unknown escape character"), mark("found unexpected document indicator"),
    mark("found undefined alias"), mark("found duplicate anchor"), mark("control characters are not allowed"),
    mark("found a tab character that violates indentation"), mark("found unhashable key"),
})  # fmt: skip
FORMS = (
    (r"JSON is malformed: .*\(byte (?P<byte>\d+)\)", mark("JSON is malformed (byte {byte})")),
    (r"Expected `(?P<wanted>[^`]+)`, got `(?P<found>[^`]+)` - at `(?P<at>[^`]+)`",
     mark("expected `{wanted}`, got `{found}` at `{at}`")),
    (r"Expected `(?P<wanted>[^`]+)`, got `(?P<found>[^`]+)`", mark("expected `{wanted}`, got `{found}`")),
    (r"Expected `(?P<wanted>[^`]+)`(?: - at `(?P<at>[^`]+)`)?", mark("expected `{wanted}`")),
    (r"Object missing required field `(?P<name>[^`]+)`.*", mark("the field `{name}` is missing")),
    (r"Object contains unknown field `(?P<name>[^`]+)`.*", mark("the field `{name}` is not known")),
    (r"(?P<text>.+): line (?P<line>\d+) column (?P<column>\d+)(?: \(char \d+\))?",
     mark("{text}: line {line}, column {column}")),
    (r"'utf-8' codec can't decode byte (?P<byte>\w+) in position (?P<at>\d+):.*",
     mark("byte {byte} at position {at} is not UTF-8")),
)  # fmt: skip
_PATTERNS = tuple((re.compile(pattern, re.DOTALL), text) for pattern, text in FORMS)


def translated(text: str, say: Say) -> str:
    """A foreign text in the reader's language."""
    if text in WHOLE:
        return say(text)
    for pattern, form in _PATTERNS:
        match = pattern.fullmatch(text)
        if match is not None:
            parts = {name: value or "" for name, value in match.groupdict().items()}
            if "text" in parts:
                parts["text"] = translated(parts["text"], say)
            return say(form, **parts)
    return text
