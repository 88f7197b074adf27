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


def check_place(path: Path) -> None:
    """Find out whether a file can be written there. Raises `UnreachableError` when it cannot."""
    _, descriptor, temporary = _begun(path)
    os.close(descriptor)
    temporary.unlink()


def write_whole(path: Path, write: Callable[[BinaryIO], T]) -> T:
    """Let `write` fill a file that takes the place of `path` when it is complete; its answer comes back.

    Raises `UnreachableError` when it cannot be written; nothing is left of it then.
    """
    path, descriptor, temporary = _begun(path)
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


def _begun(path: Path) -> tuple[Path, int, Path]:
    """Where the file will really lie, and an open file beside it."""
    try:
        # A link is followed to its end; one that leads round in a circle has none.
        real = path.resolve()
        if real.exists() and not real.is_file():
            raise UnreachableError(NO_FILE(), Place(str(path)))
        descriptor, name = tempfile.mkstemp(dir=real.parent, prefix=".capienza-")
    except (OSError, RuntimeError) as error:
        raise _unwritable(error, path) from error
    return real, descriptor, Path(name)


def _unwritable(error: OSError | RuntimeError, path: Path) -> UnreachableError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return UnreachableError(CANNOT_WRITE(reason=reason), Place(str(path)))


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
