"""`diagnose`: which phase of a run failed, from its log."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from capienza.diagnose.diagnosis import Diagnosis
from capienza.diagnose.run import diagnose_log
from capienza.errors import InputError, Place, UnreachableError, template

DIRECTORY = template(
    "diagnose.directory", "it is a directory, not a log", "name one file; for several, join them: cat DIR/*.log"
)
NOT_THERE = template("diagnose.not-there", "the log cannot be opened: {reason}", "check the path and the permissions")
NO_INPUT = template("diagnose.no-input", "standard input is closed", "pipe a log into it, or name a file instead of -")
PACKED = template("diagnose.packed", "it is packed ({kind}), not text", "unpack it into a pipe: capienza diagnose -")
NOT_TEXT = template(
    "diagnose.not-text", "it is not text: {share} % of its first bytes are no characters", "name the log of the run"
)
BROKE_OFF = template("diagnose.broke-off", "reading broke off: {reason}", "copy the log to a disk that can be read")
PACKED_STARTS = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
    b"\xfd7zXZ": "xz",
    b"BZh": "bzip2",
}
TEXT_MARKS = (b"\xff\xfe", b"\xfe\xff")
CHUNK_BYTES = 2**18
NO_CHARACTER = re.compile("[\x01-\x08\x0e-\x1a\x1c-\x1f�]")
MOST_PERCENT = 20
"""Most invalid bytes and control characters, in a hundred, of what is still a log."""


def diagnose(log: str | os.PathLike[str] | BinaryIO) -> Diagnosis:
    """What failed in the run whose log this is: a file, `-` for standard input, or an open binary file.

    Raises `InputError` for what is no text or breaks off, `UnreachableError` for what cannot be opened.
    """
    if not isinstance(log, str | os.PathLike):
        return diagnose_log(_chunks(log, getattr(log, "name", "-")), str(getattr(log, "name", "-")))
    name = os.fspath(log)
    if name == "-":
        if sys.stdin is None:
            raise InputError(NO_INPUT(), Place("-"))
        return diagnose_log(_chunks(sys.stdin.buffer, "-"), "-")
    path = Path(name)
    if path.is_dir():
        raise InputError(DIRECTORY(), Place(name))
    try:
        with path.open("rb") as file:
            return diagnose_log(_chunks(file, name), name)
    except (OSError, ValueError) as error:
        raise UnreachableError(NOT_THERE(reason=getattr(error, "strerror", None) or str(error)), Place(name)) from error


def _chunks(file: BinaryIO, name: str) -> Iterator[bytes]:
    """The bytes of a log as they come; the first of them say whether it is one."""
    read = getattr(file, "read1", file.read)
    is_first = True
    while True:
        try:
            chunk = read(CHUNK_BYTES)
        except IsADirectoryError as error:
            raise InputError(DIRECTORY(), Place(name)) from error
        except (OSError, ValueError) as error:
            raise InputError(BROKE_OFF(reason=getattr(error, "strerror", None) or str(error)), Place(name)) from error
        if not chunk:
            return
        if is_first:
            _check_start(chunk[:4096], name)
            is_first = False
        yield chunk


def _check_start(start: bytes, name: str) -> None:
    kind = next((kind for begin, kind in PACKED_STARTS.items() if start.startswith(begin)), None)
    if kind is not None:
        raise InputError(PACKED(kind=kind), Place(name))
    if start.startswith(TEXT_MARKS):
        return
    # NUL bytes do not count: a log that was cut while it was written begins with a hole of them.
    text = start.replace(b"\0", b"").decode(errors="replace").removesuffix("�")
    share = 100 * len(NO_CHARACTER.findall(text)) // max(1, len(text))
    if len(text) >= 16 and share > MOST_PERCENT:
        raise InputError(NOT_TEXT(share=share), Place(name))
