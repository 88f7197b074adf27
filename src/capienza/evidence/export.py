"""Write a crate: each file whole or not at all, the metadata last, and nothing of anybody else's replaced."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from capienza.errors import InputError, Place, UnreachableError, template
from capienza.evidence.crate import METADATA
from capienza.evidence.store import UNREADABLE, write_file

OTHER_CONTENT = template(
    "evidence.export-other-content",
    "the folder holds what this export does not write",
    "give a new folder, or the one of an earlier export of these records",
)


def write_crate(files: Mapping[str, bytes], folder: Path) -> None:
    """Write the files of a crate; one of an earlier export of some of the records is brought up to date.

    Raises `InputError` when the folder holds anything else, `UnreachableError` when it cannot be written.
    """
    try:
        _refuse_others(files, folder)
        for name in (*(name for name in files if name != METADATA), METADATA):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists() or name == METADATA:
                write_file(path, files[name])
    except OSError as error:
        raise UnreachableError(UNREADABLE(problem=error.strerror or str(error)), Place(str(folder))) from error


def _refuse_others(files: Mapping[str, bytes], folder: Path) -> None:
    if not folder.exists():
        return
    folders = {str(Path(name).parent) for name in files}
    found = sorted(folder.iterdir()) if folder.is_dir() else [folder]
    for top in found:
        inside = sorted(top.iterdir()) if top.is_dir() and not top.is_symlink() and top.name in folders else [top]
        for path in inside:
            name = path.relative_to(folder).as_posix()
            is_ours = name in files and path.is_file() and not path.is_symlink()
            if not is_ours or (name != METADATA and path.read_bytes() != files[name]):
                raise InputError(OTHER_CONTENT(), Place(str(path)))
