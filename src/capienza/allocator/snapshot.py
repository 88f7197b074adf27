"""Reading a memory snapshot: PyTorch's pickle, or JSON in the same form or in the reduced one; either gzipped."""

from __future__ import annotations

import gzip
import os
import zlib
from pathlib import Path

import msgspec

from capienza.allocator.pickled import MOST_CONTAINERS, TOO_MUCH, read_plain
from capienza.allocator.recording import Reduced, Snapshot
from capienza.errors import InputError, Place, UnreachableError, shortened, template

CANNOT_OPEN = template(
    "snapshot.cannot-open", "the snapshot cannot be opened: {reason}", "Check the path and the permissions."
)
FOLDER = template("snapshot.folder", "it is a folder, not a snapshot", "Name one file.")
TOO_LARGE = template(
    "snapshot.too-large",
    "it is larger than {most_bytes}",
    "Record less: max_entries of torch.cuda.memory._record_memory_history, or context=None.",
)
UNKNOWN_FORM = template(
    "snapshot.unknown-form",
    "it is no memory snapshot: it begins with {found}",
    "Accepted: the pickle of torch.cuda.memory._dump_snapshot, or JSON with segments and device_traces or traces.",
)
BROKEN_ZIP = template("snapshot.broken-gzip", "the compressed file breaks off or is damaged", "Copy it again.")
BAD_SHAPE = template(
    "snapshot.bad-shape",
    "it is no memory snapshot: {reason}",
    "Accepted: what torch.cuda.memory._dump_snapshot writes: segments with blocks, and device_traces.",
)
NO_HISTORY = template(
    "snapshot.no-history",
    "it holds no history of events",
    "Call torch.cuda.memory._record_memory_history() before the program.",
)
OTHER_DEVICE = template(
    "snapshot.other-device",
    "a segment lies on device {device}, and there are histories of {count}",
    "The snapshot is damaged, or was edited; record it again.",
)
MOST_BYTES = 512 * 2**20
GZIP_START = b"\x1f\x8b"
PICKLE_STARTS = (b"\x80", b"(", b"}", b"]")


def read_snapshot(path: str | os.PathLike[str]) -> Snapshot:
    """The snapshot in this file. Nothing that it may contain is run.

    Raises `UnreachableError` if it cannot be opened, `InputError` for what is no snapshot or has no history.
    """
    name = os.fspath(path)
    try:
        return parse_snapshot(_content(Path(name)))
    except InputError as error:
        raise InputError(error.message, Place(name)) from error


def parse_snapshot(data: bytes) -> Snapshot:
    """The snapshot that these bytes hold. Raises `InputError` as `read_snapshot` does."""
    try:
        if data[:1] in PICKLE_STARTS:
            found = msgspec.convert(read_plain(data), Snapshot)
        elif data[:1] == b"{" or data[:100].lstrip()[:1] == b"{":
            if data.count(b"[") + data.count(b"{") > MOST_CONTAINERS:
                raise InputError(TOO_MUCH(offset=len(data), most=MOST_CONTAINERS))
            keys = msgspec.json.decode(data, type=_Keys)
            is_reduced = keys.traces is not msgspec.UNSET
            found = (
                msgspec.json.decode(data, type=Reduced).snapshot()
                if is_reduced
                else msgspec.json.decode(data, type=Snapshot)
            )
        else:
            raise InputError(UNKNOWN_FORM(found=shortened(repr(data[:24]))))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(BAD_SHAPE(reason=shortened(str(error), 200))) from error
    if not any(found.device_traces):
        raise InputError(NO_HISTORY())
    count = len(found.device_traces)
    for one in found.segments:
        if not 0 <= one.device < count:
            raise InputError(OTHER_DEVICE(device=one.device, count=count))
    return found


class _Keys(msgspec.Struct):
    """Which of the two forms in JSON it is."""

    traces: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


def _content(path: Path) -> bytes:
    try:
        if path.is_dir():
            raise InputError(FOLDER())
        with path.open("rb") as file:
            start = file.read(2)
            file.seek(0)
            if start == GZIP_START:
                with gzip.open(file) as unpacked:
                    data = unpacked.read(MOST_BYTES + 1)
            else:
                data = file.read(MOST_BYTES + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(BROKEN_ZIP()) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UnreachableError(CANNOT_OPEN(reason=reason), Place(str(path))) from error
    if len(data) > MOST_BYTES:
        raise InputError(TOO_LARGE(most_bytes=MOST_BYTES))
    return data
