"""A file appears complete or not at all: written beside its place, made durable, then renamed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, TypeVar

from capienza.errors import Place, UnreachableError, template

CANNOT_WRITE = template(
    "files.cannot-write", "the file cannot be written: {reason}", "Check the folder, its permissions and the disk."
)
NO_FILE = template(
    "files.not-a-file-to-write",
    "this is a folder, a pipe or a device; only a file can appear complete or not at all",
    "Give the path of a file.",
)
T = TypeVar("T")


def check_place(path: Path) -> Path:
    """Where a file will really lie: what the path links to. Raises `UnreachableError` when it cannot be written."""
    path = path.resolve()
    if path.exists() and not path.is_file():
        raise UnreachableError(NO_FILE(), Place(str(path)))
    try:
        descriptor, name = _temporary(path)
    except OSError as error:
        raise _unwritable(error, path) from error
    os.close(descriptor)
    Path(name).unlink()
    return path


def write_whole(path: Path, write: Callable[[BinaryIO], T]) -> T:
    """Let `write` fill a file that takes the place of `path` when it is complete; its answer comes back.

    Raises `UnreachableError` when it cannot be written; nothing is left of it then.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        raise UnreachableError(NO_FILE(), Place(str(path)))
    try:
        descriptor, name = _temporary(path)
    except OSError as error:
        raise _unwritable(error, path) from error
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            answer = write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise _unwritable(error, path) from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return answer


def _temporary(path: Path) -> tuple[int, str]:
    return tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.")


def _unwritable(error: OSError, path: Path) -> UnreachableError:
    return UnreachableError(CANNOT_WRITE(reason=error.strerror or str(error)), Place(str(path)))


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
