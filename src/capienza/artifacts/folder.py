"""A place that holds a model's files: a folder of this machine here, a repository in `hub`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from capienza.artifacts.source import CANNOT_READ, LocalFile, Source, legible, reason_of
from capienza.errors import CapienzaError, InputError, Place, UnreachableError, template

MAX_LISTED = 50_000
MODEL_SUFFIXES = (".safetensors", ".gguf")
T = TypeVar("T")

TOO_MANY_FILES = template(
    "artifacts.too-many-files",
    "holds more than {accepted} files, so it is not a model's folder",
    "give the folder that holds config.json and the weights",
)

MISSING_SHARD = template(
    "artifacts.index-missing-shard",
    "names the file {found}, which is not there",
    "download the missing file",
)


class Folder:
    """Files by name: names are relative, with `/` between parts. `label` is what a person calls the folder.

    `opened` remembers every file that was opened, so that what was read can be listed and counted.
    """

    def __init__(self, label: str) -> None:
        self.label = label
        self.opened: dict[str, Source] = {}

    def open(self, name: str) -> Source:
        """A file to read. Raises `UnreachableError` when it is not there or not allowed."""
        source = self.opened[name] = self.source(name)
        return source

    def each(self, read: Callable[[str], T], names: Iterable[str]) -> list[T]:
        """`read` of each name, in order."""
        return [read(name) for name in names]

    @property
    def bytes_read(self) -> int:
        """Bytes fetched so far through this folder."""
        return sum(source.bytes_read for source in self.opened.values())

    def absent(self, name: str, place: Place) -> CapienzaError:
        """The error for a file that the index at `place` names and the folder lacks."""
        return InputError(MISSING_SHARD(found=legible(name)), place)

    def source(self, name: str) -> Source:
        """The file behind `open`."""
        raise NotImplementedError

    def address(self, name: str) -> str:
        """What a person writes to mean this one file."""
        raise NotImplementedError

    def names(self) -> list[str]:
        """Every file, sorted."""
        raise NotImplementedError

    def has(self, name: str) -> bool:
        """Is there such a file?"""
        raise NotImplementedError


class LocalFolder(Folder):
    """A folder of this machine; its own files and those one level down are listed."""

    def __init__(self, path: str | os.PathLike[str], label: str | None = None) -> None:
        self.path = os.fspath(path)
        super().__init__(self.path if label is None else label)

    def source(self, name: str) -> Source:
        """The file, opened."""
        return LocalFile(os.path.join(self.path, name), self.address(name))

    def address(self, name: str) -> str:
        """The path of the file."""
        return os.path.join(self.label, name)

    def names(self) -> list[str]:
        """Every file of the folder and of its subfolders. Raises `InputError` above `MAX_LISTED`.

        What has the name of a model's file is listed whatever it is (a link to nothing, a folder): opening it then
        says what is wrong, where leaving it out would take the rest of the folder for the whole model.
        """
        names: list[str] = []
        for name in self._walk(self.path, ""):
            names.append(name)
            if len(names) > MAX_LISTED:
                raise InputError(TOO_MANY_FILES(accepted=MAX_LISTED), Place(self.label))
        return sorted(names)

    def has(self, name: str) -> bool:
        """Is there such a file?"""
        return os.path.lexists(os.path.join(self.path, name))

    def _walk(self, path: str, prefix: str) -> Iterator[str]:
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    if entry.is_file() or entry.name.endswith(MODEL_SUFFIXES):
                        yield prefix + entry.name
                    elif not prefix and entry.is_dir():
                        yield from self._walk(entry.path, f"{entry.name}/")
        except OSError as error:
            if not prefix:
                raise UnreachableError(CANNOT_READ(reason=reason_of(error)), Place(self.label)) from error
