"""The digest of a document of any size, read piece by piece."""

from __future__ import annotations

from pathlib import Path

from capienza.errors import Place, UnreachableError, template
from capienza.yamlmarks.source import open_file

CANNOT_READ = template(
    "records.cannot-read", "the file cannot be read: {reason}", "Check its permissions and the disk."
)
PIECE_BYTES = 2**20


def digest_of_file(path: Path) -> str:
    """The sha256 of a file. Raises `UnreachableError` when it is not there, not readable, or no regular file."""
    import hashlib

    digest = hashlib.sha256()
    with open_file(path) as file:
        try:
            while piece := file.read(PIECE_BYTES):
                digest.update(piece)
        except OSError as error:
            raise UnreachableError(CANNOT_READ(reason=error.strerror or str(error)), Place(str(path))) from error
    return digest.hexdigest()
