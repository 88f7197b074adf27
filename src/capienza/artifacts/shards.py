"""The tensors of a safetensors model in one file or many: an index says which file holds which tensor.

Source: the index that huggingface_hub and transformers write, `{"metadata": ..., "weight_map": {tensor: file}}`.
Loaders differ about tensors that the index forgets (they read whole files), so these are kept and reported.
"""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from capienza.artifacts.folder import Folder
from capienza.artifacts.safetensors import Header, read_header
from capienza.artifacts.source import Source
from capienza.artifacts.weights import Weights
from capienza.errors import InputError, Message, Place, template

MAX_INDEX_BYTES = 32 * 1024**2
MAX_INDEX_ENTRIES = 262_144
"""The largest public index we know of has about 210 000 entries in 24 MB."""

INDEX_TOO_LARGE = template(
    "artifacts.index-too-large",
    "has {found} B and {entries} entries; at most {accepted} B and {accepted_entries} entries are read",
    "the file is damaged or hostile: download it again from its source",
)
BAD_INDEX = template(
    "artifacts.index-not-valid",
    "is not an index of safetensors files: {reason}",
    "an index holds weight_map, an object from tensor names to file names: download it again",
)
INDEX_TWICE = template(
    "artifacts.index-duplicate-tensor",
    "has {entries} entries for {found} tensors: a name is given twice, or holds a quotation mark",
    "the file is damaged or hostile: download it again from its source",
)
OUTSIDE = template(
    "artifacts.index-path-outside",
    "names the file {found}; a relative path inside the folder is accepted",
    "the index is hostile or written by hand: do not use it",
)
MISSING_SHARD = template(
    "artifacts.index-missing-shard",
    "names the file {found}, which is not there",
    "download the missing file",
)
MISSING_TENSOR = template(
    "artifacts.index-missing-tensor",
    "is said to be in {found}, whose header does not list it ({count} such tensors)",
    "index and files do not belong together: download them again",
)
TENSOR_TWICE = template(
    "artifacts.tensor-in-two-files",
    "is in {found} and in {other}, and no index says which one counts",
    "add the model's index, or keep one of the files",
)
NOT_INDEXED = template(
    "artifacts.not-in-index",
    "{count} tensors are in the files but not in the index, the first is {found}; they are counted",
)
COPY_SKIPPED = template(
    "artifacts.indexed-elsewhere",
    "{count} tensors, the first is {found}, are stored again in a file that the index does not name for them; "
    "they are counted once",
)

_LEAVES = re.compile(r"\.\.(?:/|$)|[/~]|[A-Za-z]:|.*[\\\0]|.*/\.\.(?:/|$)", re.DOTALL)


class _Index(msgspec.Struct):
    weight_map: msgspec.Raw


_INDEX = msgspec.json.Decoder(_Index)


def read_files(folder: Folder, names: tuple[str, ...]) -> Weights:
    """Files that belong together without an index. Raises `InputError` for a tensor that is in two of them."""
    headers = _headers(folder, names)
    owners: dict[str, str] = {}
    for name, header in zip(names, headers, strict=True):
        for tensor in header.tensors:
            other = owners.setdefault(tensor.name, name)
            if other != name:
                raise InputError(TENSOR_TWICE(found=other, other=name), Place(folder.label, key=tensor.name))
    return _joined(headers)


def read_indexed(folder: Folder, index_name: str) -> Weights:
    """The files that an index names. Raises `InputError` when index and files disagree."""
    with folder.open(index_name) as source:
        weight_map = read_weight_map(source, folder)
    names = tuple(sorted(set(weight_map.values())))
    headers = _headers(folder, names)
    missing = dict(weight_map)
    forgotten: list[str] = []
    copies: list[str] = []
    kept = []
    for name, header in zip(names, headers, strict=True):
        tensors = []
        for tensor in header.tensors:
            owner = weight_map.get(tensor.name)
            if owner == name:
                del missing[tensor.name]
            elif owner is None:
                forgotten.append(tensor.name)
                weight_map[tensor.name] = name
            else:
                copies.append(tensor.name)
                continue
            tensors.append(tensor)
        kept.append(Header(tuple(tensors), header.metadata))
    if missing:
        key, shard = next(iter(missing.items()))
        place = Place(folder.address(index_name), key=key)
        raise InputError(MISSING_TENSOR(found=shard, count=len(missing)), place)
    notes = [
        note(count=len(found), found=found[0])
        for note, found in ((NOT_INDEXED, forgotten), (COPY_SKIPPED, copies))
        if found
    ]
    return _joined(kept, tuple(notes))


def read_weight_map(source: Source, folder: Folder) -> dict[str, str]:
    """Tensor name to file name, every file being there. Raises `InputError`."""
    _check_limit(source.size_bytes, 0, source.name)
    try:
        # The copy lets go of the rest of the file.
        raw = bytes(_INDEX.decode(source.read(0, source.size_bytes)).weight_map)
        _check_limit(source.size_bytes, raw.count(b","), source.name)
        weight_map = _decode(raw, source.name, folder)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InputError(BAD_INDEX(reason=reason), Place(source.name)) from error
    if not weight_map:
        raise InputError(BAD_INDEX(reason="weight_map is empty"), Place(source.name))
    # An entry is two JSON strings, so four quotes: more of them are entries that decoding dropped.
    entries = raw.count(b'"') // 4
    if entries != len(weight_map):
        raise InputError(INDEX_TWICE(entries=entries, found=len(weight_map)), Place(source.name))
    return weight_map


def _check_limit(size_bytes: int, entries: int, name: str) -> None:
    if size_bytes > MAX_INDEX_BYTES or entries >= MAX_INDEX_ENTRIES:
        message = INDEX_TOO_LARGE(
            found=size_bytes, entries=entries, accepted=MAX_INDEX_BYTES, accepted_entries=MAX_INDEX_ENTRIES
        )
        raise InputError(message, Place(name))


def _decode(raw: bytes, name: str, folder: Folder) -> dict[str, str]:
    there = tuple(file for file in folder.names() if file.endswith(".safetensors"))
    # Decoding into the file names that are there checks them and keeps one text for each, not one for each tensor.
    known: Any = Literal.__getitem__(there or ("",))
    try:
        return msgspec.json.decode(raw, type=dict[str, known])
    except msgspec.ValidationError:
        for key, file in msgspec.json.decode(raw, type=dict[str, str]).items():
            if file not in there:
                problem = OUTSIDE if _LEAVES.match(file) else MISSING_SHARD
                raise InputError(problem(found=file[:256]), Place(name, key=key)) from None
        raise


def _headers(folder: Folder, names: tuple[str, ...]) -> list[Header]:
    def read(name: str) -> Header:
        with folder.open(name) as source:
            return read_header(source)

    return folder.each(read, names)


def _joined(headers: list[Header], notes: tuple[Message, ...] = ()) -> Weights:
    tensors = tuple(tensor for header in headers for tensor in header.tensors)
    metadata = {key: value for header in reversed(headers) for key, value in header.metadata.items()}
    return Weights(tensors, metadata, notes)
