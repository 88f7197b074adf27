"""Where bytes come from: a named run of known size, read piece by piece and never past its end."""

from __future__ import annotations

import os
import stat
from types import TracebackType
from typing import Self

from capienza.errors import InputError, Place, UnreachableError, template

PAST_END = template(
    "artifacts.past-end",
    "{length} B were wanted at byte {offset}, but the file has {size} B",
    "the file is truncated or damaged: download it again",
)
SHORT_READ = template(
    "artifacts.short-read",
    "{length} B were wanted at byte {offset}, only {found} B came back",
    "the file changed while it was read: try again",
)
CANNOT_READ = template(
    "artifacts.cannot-read",
    "cannot be read: {reason}",
    "check that the file exists and that you may read it",
)
NOT_A_FILE = template(
    "artifacts.not-a-file",
    "is not a regular file",
    "give a .safetensors, .gguf or .json file, or the folder that holds the model",
)


class Source:
    """A readable run of `size_bytes` bytes; `name` is shown in errors, `bytes_read` counts what was fetched."""

    def __init__(self, name: str, size_bytes: int) -> None:
        self.name = name
        self.size_bytes = size_bytes
        self.bytes_read = 0

    def read(self, offset: int, length: int) -> bytes:
        """Exactly `length` bytes from `offset`. Raises `InputError` past the end and for a short read."""
        if offset < 0 or length < 0 or offset + length > self.size_bytes:
            raise InputError(PAST_END(length=length, offset=offset, size=self.size_bytes), Place(self.name))
        if not length:
            return b""
        data = self.fetch(offset, length)
        if len(data) != length:
            raise InputError(SHORT_READ(length=length, offset=offset, found=len(data)), Place(self.name))
        return data

    def fetch(self, offset: int, length: int) -> bytes:
        """Up to `length` bytes from `offset`, counted in `bytes_read`; the bounds are already checked."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of what the source holds open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class LocalFile(Source):
    """A regular file of this machine. Raises `UnreachableError` when it cannot be opened."""

    def __init__(self, path: str | os.PathLike[str], name: str | None = None) -> None:
        shown = name or os.fspath(path)
        try:
            # Looked at before it is opened: opening a pipe would wait for its other end.
            if not stat.S_ISREG(os.stat(path).st_mode):
                raise InputError(NOT_A_FILE(), Place(shown))
            self._file = open(path, "rb", buffering=0)  # noqa: SIM115 - closed by close()
        except (OSError, ValueError) as error:
            raise UnreachableError(CANNOT_READ(reason=reason_of(error)), Place(shown)) from error
        super().__init__(shown, os.fstat(self._file.fileno()).st_size)

    def fetch(self, offset: int, length: int) -> bytes:
        """Seek and read; an error of the device is an `UnreachableError`."""
        try:
            self._file.seek(offset)
            data = self._file.read(length)
        except OSError as error:
            raise UnreachableError(CANNOT_READ(reason=reason_of(error)), Place(self.name)) from error
        self.bytes_read += len(data)
        return data

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def reason_of(error: OSError | ValueError) -> str:
    """What the operating system said, without the path, which the place already shows."""
    return getattr(error, "strerror", None) or str(error)


def key_at(name: str, key: str) -> Place:
    """The place of a key in the file `name`."""
    return Place(name, key=legible(key))


def legible(text: str) -> str:
    """Text from a file, fit for one line of a terminal: cut, and with what cannot be printed escaped."""
    cut = text if len(text) <= 256 else f"{text[:256]}..."
    return cut if cut.isprintable() else cut.encode("unicode_escape").decode()
