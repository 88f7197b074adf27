"""Standard output and error as a call may find them: closed, or in an encoding that does not hold every character."""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import TextIO

ESCAPED = "capienza.escaped"
"""Name of the error handler below."""


def prepare_streams() -> None:
    """Make both streams take any text. What their encoding cannot hold is written as an escape, never refused."""
    codecs.register_error(ESCAPED, escaped)
    # Closed by the caller, who then wants the exit code alone.
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=ESCAPED)


def json_output() -> TextIO:
    """Standard output for a JSON document, which is UTF-8 or, where the stream is not, ASCII."""
    if isinstance(sys.stdout, io.TextIOWrapper) and codecs.lookup(sys.stdout.encoding).name != "utf-8":
        sys.stdout.reconfigure(encoding="ascii", errors=ESCAPED)
    return sys.stdout


@contextlib.contextmanager
def reader_may_leave() -> Iterator[None]:
    """Write an answer whose exit code is known: a reader that has seen enough, as `head` has, does not change it."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        drop_output()


def drop_output() -> None:
    """The reader went away: the rest has nobody to go to."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def escaped(error: UnicodeError) -> tuple[str, int]:
    r"""Characters as `\uXXXX`, in pairs beyond the first plane: inside a string of JSON they mean the same."""
    assert isinstance(error, UnicodeEncodeError)
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{high:02x}{low:02x}" for high, low in zip(units[::2], units[1::2], strict=True)), error.end
