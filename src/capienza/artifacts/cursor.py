"""A place in a source that moves forward: the reading head of the GGUF reader.

It keeps one window of bytes, which grows from read to read so that a remote header of unknown length costs few
requests, and refuses a length before anything of that length is allocated.
"""

from __future__ import annotations

import struct
from typing import Any

from capienza.artifacts.source import Source
from capienza.errors import InputError, Place, template

FIRST_WINDOW_BYTES = 256 * 1024
LARGEST_WINDOW_BYTES = 4 * 1024**2
MAX_NAME_BYTES = 1024
MAX_KEPT_BYTES = 16 * 1024**2
"""Names and values kept from one header, with what Python adds to each."""

TRUNCATED = template(
    "artifacts.gguf-truncated",
    "ends after {size} B, while {length} B were expected at byte {offset}",
    "the file is truncated or damaged: download it again",
)
LONG_NAME = template(
    "artifacts.gguf-long-name",
    "has a name of {found} B at byte {offset}; at most {accepted} B are accepted",
    "the file is damaged or hostile: download it again from its source",
)
NOT_UTF8 = template(
    "artifacts.gguf-not-utf8",
    "has a name at byte {offset} that is not UTF-8 text: {found}",
    "the file is damaged: download it again",
)
TOO_MUCH_KEPT = template(
    "artifacts.gguf-metadata-too-large",
    "has more names and values than are kept in memory ({accepted} B)",
    "the file is damaged or hostile: download it again from its source",
)
_LENGTH = struct.Struct("<Q")


class Cursor:
    """Reads a source from front to back."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._window = b""
        self._start = 0
        self._at = 0
        self._step = FIRST_WINDOW_BYTES
        self._kept_bytes = 0

    @property
    def position(self) -> int:
        """Offset in the source of the next byte."""
        return self._start + self._at

    def take(self, count: int) -> bytes:
        """The next `count` bytes."""
        self._need(count)
        self._at += count
        return self._window[self._at - count : self._at]

    def unpack(self, layout: struct.Struct) -> tuple[Any, ...]:
        """The next values, laid out as `layout`."""
        self._need(layout.size)
        self._at += layout.size
        return layout.unpack_from(self._window, self._at - layout.size)

    def length(self) -> int:
        """The next unsigned 64-bit number."""
        length: int = self.unpack(_LENGTH)[0]
        return length

    def name(self) -> str:
        """The next text, which must be a short UTF-8 name."""
        offset = self.position
        length = self.length()
        if length > MAX_NAME_BYTES:
            message = LONG_NAME(found=length, offset=offset, accepted=MAX_NAME_BYTES)
            raise InputError(message, Place(self.source.name))
        self.keep(length + 64)
        data = self.take(length)
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise InputError(NOT_UTF8(offset=offset, found=repr(data[:64])[1:]), Place(self.source.name)) from error

    def keep(self, count: int) -> None:
        """Account for `count` bytes that stay in memory. Raises `InputError` when it is too much."""
        self._kept_bytes += count
        if self._kept_bytes > MAX_KEPT_BYTES:
            raise InputError(TOO_MUCH_KEPT(accepted=MAX_KEPT_BYTES), Place(self.source.name))

    def skip(self, count: int) -> None:
        """Pass over `count` bytes; what lies beyond the window is not read."""
        self._check_left(count)
        self._at += count
        if self._at > len(self._window):
            self._start, self._window, self._at = self.position, b"", 0

    def skip_texts(self, count: int) -> None:
        """Pass over `count` texts, each a 64-bit length and its bytes: the vocabulary of a model has 10^5 of them."""
        self._check_left(8 * count)
        unpack_length = _LENGTH.unpack_from
        while count:
            window, at, done = self._window, self._at, 0
            try:
                for done in range(count):  # noqa: B007
                    at += 8 + unpack_length(window, at)[0]
                done = count
            except (struct.error, OverflowError):
                # The window ended: `at` is where text number `done` begins, perhaps far beyond.
                pass
            self.skip(at - self._at)
            count -= done
            if count:
                self._need(8)

    def _check_left(self, count: int) -> None:
        if self.position + count > self.source.size_bytes:
            message = TRUNCATED(size=self.source.size_bytes, length=count, offset=self.position)
            raise InputError(message, Place(self.source.name))

    def _need(self, count: int) -> None:
        if self._at + count <= len(self._window):
            return
        self._check_left(count)
        rest = self._window[self._at :]
        self._start, self._at = self.position, 0
        left = self.source.size_bytes - self._start
        length = min(max(count, self._step), left)
        self._window = rest + self.source.read(self._start + len(rest), length - len(rest))
        self._step = min(2 * self._step, LARGEST_WINDOW_BYTES)
