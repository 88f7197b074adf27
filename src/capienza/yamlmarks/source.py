"""The bytes of a small file, never more than the limit."""

from __future__ import annotations

import stat
from io import BufferedReader
from pathlib import Path

from capienza.errors import InputError, Message, Place, UnreachableError, template
from capienza.units import format_size

NOT_FOUND = template(
    "yamlmarks.not-found", "there is no such file", "Check the path: it starts from the folder you are in."
)
NOT_REGULAR = template(
    "yamlmarks.not-a-regular-file",
    "expected a file, got a pipe or a device",
    "Write it to a file first, and give the path of that.",
)
NOT_A_FILE = template("yamlmarks.not-a-file", "expected a file, got a folder", "Give the path of a file in it.")
UNREADABLE_FILE = template(
    "yamlmarks.unreadable-file", "the file cannot be read: {reason}", "Check its permissions and the disk."
)
TOO_LARGE = template(
    "yamlmarks.too-large",
    "the file is larger than {limit}, the most that is read",
    "Split it, or check that it is the file you meant.",
)


def too_large(max_bytes: int) -> Message:
    """What is said of a file above the limit."""
    return TOO_LARGE(limit=format_size(max_bytes, "KiB", 0))


def read_bytes(path: Path, max_bytes: int) -> bytes:
    """The content of a file of at most `max_bytes`.

    Raises `UnreachableError` when it is not there or cannot be opened, `InputError` when it is larger.
    """
    place = Place(str(path))
    with open_file(path) as file:
        try:
            data = file.read(max_bytes + 1)
        except OSError as error:
            raise UnreachableError(UNREADABLE_FILE(reason=error.strerror or str(error)), place) from error
    if len(data) > max_bytes:
        raise InputError(too_large(max_bytes), place)
    return data


def open_file(path: Path) -> BufferedReader:
    """The file, open for reading. Raises `UnreachableError` when it is not there, not readable, or no regular file."""
    place = Place(str(path))
    try:
        # Looked at before it is opened: opening a pipe would wait for its other end.
        mode = path.stat().st_mode
        if stat.S_ISREG(mode):
            return path.open("rb")
    except FileNotFoundError:
        raise UnreachableError(NOT_FOUND(), place) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UnreachableError(UNREADABLE_FILE(reason=reason), place) from error
    raise UnreachableError(NOT_A_FILE() if stat.S_ISDIR(mode) else NOT_REGULAR(), place)
