"""The tensors of a safetensors model in one file or many, checked against the index where there is one.

Loaders read whole files, so tensors that the index forgets are in memory too: they are kept and reported.
"""

from __future__ import annotations

from capienza.artifacts.folder import Folder
from capienza.artifacts.index import read_index
from capienza.artifacts.safetensors import Header, read_header
from capienza.artifacts.source import key_at, legible
from capienza.artifacts.weights import Weights
from capienza.errors import InputError, Message, template

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

OTHER_TOTAL = template(
    "artifacts.index-other-total",
    "the index says that the tensors take {stated} B together, the headers of the files {found} B; the headers count",
)
ODD_TOTAL = template(
    "artifacts.index-odd-total",
    "the index states total_size {found}, where a whole number of bytes is expected; the headers of the files count",
)


def read_files(folder: Folder, names: tuple[str, ...]) -> Weights:
    """Files that belong together without an index. Raises `InputError` for a tensor that is in two of them."""
    headers = _headers(folder, names)
    owners: dict[str, str] = {}
    for name, header in zip(names, headers, strict=True):
        for tensor in header.tensors:
            other = owners.setdefault(tensor.name, name)
            if other != name:
                raise InputError(TENSOR_TWICE(found=other, other=name), key_at(folder.label, tensor.name))
    return _joined(headers)


def read_indexed(folder: Folder, index_name: str) -> Weights:
    """The files that an index names. Raises `InputError` when index and files disagree."""
    with folder.open(index_name) as source:
        index = read_index(source, folder)
    weight_map = index.weight_map
    names = tuple(sorted(set(weight_map.values())))
    headers = []
    found = 0
    forgotten: dict[str, str] = {}
    copies: list[str] = []
    for name, header in zip(names, _headers(folder, names), strict=True):
        tensors = []
        for tensor in header.tensors:
            owner = weight_map.get(tensor.name)
            if owner == name:
                found += 1
                tensors.append(tensor)
            elif owner is None and forgotten.setdefault(tensor.name, name) == name:
                tensors.append(tensor)
            else:
                copies.append(tensor.name)
        headers.append(Header(tuple(tensors), header.metadata))
    if found != len(weight_map):
        there = {tensor.name for header in headers for tensor in header.tensors}
        missing = [tensor for tensor in weight_map if tensor not in there]
        message = MISSING_TENSOR(found=weight_map[missing[0]], count=len(missing))
        raise InputError(message, key_at(folder.address(index_name), missing[0]))
    notes = [
        note(count=len(tensors), found=next(iter(tensors)))
        for note, tensors in ((NOT_INDEXED, forgotten), (COPY_SKIPPED, copies))
        if tensors
    ]
    weights = _joined(headers, tuple(notes))
    held = sum(tensor.bytes for tensor in weights.tensors)
    return Weights(weights.tensors, weights.metadata, (*notes, *_other_total(index.total_size, held)))


def _other_total(stated: object, held: int) -> tuple[Message, ...]:
    """What is said of a total that is not the sum of the headers."""
    if stated is None or stated == held:
        return ()
    if isinstance(stated, float) and stated.is_integer():
        stated = int(stated)
    if isinstance(stated, bool) or not isinstance(stated, int):
        return (ODD_TOTAL(found=legible(str(stated))),)
    return (OTHER_TOTAL(stated=stated, found=held),)


def _headers(folder: Folder, names: tuple[str, ...]) -> list[Header]:
    def read(name: str) -> Header:
        with folder.open(name) as source:
            return read_header(source)

    return folder.each(read, names)


def _joined(headers: list[Header], notes: tuple[Message, ...] = ()) -> Weights:
    tensors = tuple(tensor for header in headers for tensor in header.tensors)
    metadata = {key: value for header in reversed(headers) for key, value in header.metadata.items()}
    return Weights(tensors, metadata, notes)
