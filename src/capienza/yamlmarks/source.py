"""The bytes of a small file, never more than the limit."""

from __future__ import annotations

from pathlib import Path

from capienza.errors import InputError, Message, Place, UnreachableError, template
from capienza.units import format_size

NOT_FOUND = template(
    "yamlmarks.not-found", "there is no such file", "Check the path: it starts from the folder you are in."
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
    try:
        with path.open("rb") as file:
            data = file.read(max_bytes + 1)
    except FileNotFoundError:
        raise UnreachableError(NOT_FOUND(), place) from None
    except IsADirectoryError:
        raise UnreachableError(NOT_A_FILE(), place) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UnreachableError(UNREADABLE_FILE(reason=reason), place) from error
    if len(data) > max_bytes:
        raise InputError(too_large(max_bytes), place)
    return data
