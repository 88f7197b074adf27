"""GGUF: metadata and tensor table of one file, or of all the parts of a split one.

Legend: ne are a tensor's sizes as the file lists them, the row length first; `Tensor.shape` has them reversed, row
length last, like every other tensor of the project. Offsets count from the data section, which begins at the next
multiple of `general.alignment` after the table. Source: ggml/include/gguf.h and ggml/src/gguf.cpp of llama.cpp, whose
loader also wants the tensors in table order, each padded to the alignment.
"""

from __future__ import annotations

import struct

from capienza.artifacts.cursor import Cursor
from capienza.artifacts.folder import Folder
from capienza.artifacts.gguf_values import Value, read_value
from capienza.artifacts.source import Source, key_at, legible
from capienza.artifacts.weights import Weights
from capienza.errors import InputError, Place, template
from capienza.formats.blocks import GGUF_TYPES, tensor_bytes
from capienza.formats.tensor import Tensor

MAX_KEYS = 65_536
MAX_TENSORS = 65_536
DEFAULT_ALIGNMENT = 32

WRONG_MAGIC = template(
    "artifacts.gguf-wrong-magic",
    "is not a GGUF file: it begins with {found}, where GGUF is expected",
    "give a .gguf file; older GGML files must be converted again with llama.cpp",
)
BIG_ENDIAN = template(
    "artifacts.gguf-big-endian",
    "is a big-endian GGUF file; only little-endian ones are read",
    "convert it with `gguf-convert-endian FILE little`",
)
WRONG_VERSION = template(
    "artifacts.gguf-wrong-version",
    "is GGUF version {found}; versions 2 and 3 are read",
    "convert the model again with a current llama.cpp, or update capienza",
)
TOO_MANY_KEYS = template(
    "artifacts.gguf-too-many-keys",
    "lists {found} keys; at most {accepted} are read",
    "the file is damaged or hostile: download it again from its source",
)
TOO_MANY_TENSORS = template(
    "artifacts.gguf-too-many-tensors",
    "lists {found} tensors; at most {accepted} are read",
    "the file is damaged or hostile: download it again from its source",
)
DUPLICATE = template(
    "artifacts.gguf-duplicate-name",
    "this name is given twice",
    "the file is damaged or hostile: two readers would disagree about it",
)
BAD_ALIGNMENT = template(
    "artifacts.gguf-bad-alignment",
    "is {found}; a power of two below 2^32 is accepted",
    "the file is damaged: download it again",
)
BAD_SHAPE = template(
    "artifacts.gguf-bad-shape",
    "has {found} dimensions; 0 to 4 are accepted",
    "the file is damaged: download it again",
)
UNKNOWN_TYPE = template(
    "artifacts.gguf-unknown-type",
    "has the ggml type {found}, which is not known",
    "update capienza; types of forks such as ik_llama.cpp are not read",
)
WRONG_OFFSET = template(
    "artifacts.gguf-wrong-offset",
    "begins at byte {found} of the data section, where {accepted} is expected",
    "the file is damaged or hostile: download it again from its source",
)
DATA_PAST_END = template(
    "artifacts.gguf-truncated-data",
    "ends at byte {found} of the data section, which has {accepted}",
    "the file is truncated: download it again",
)
BAD_SPLIT = template(
    "artifacts.gguf-bad-split",
    "is {found}, where {accepted} is expected: the parts of a split model do not belong together",
    "download all the parts again, and keep their names",
)


def read_gguf(source: Source) -> Weights:
    """One file: its metadata (what is long as `LongValue`) and its tensors, in the order of the table.

    Raises `InputError` for what llama.cpp's loader refuses, and by number and tensor name for an unknown type.
    """
    cursor = Cursor(source)
    magic = cursor.take(min(4, source.size_bytes))
    if magic != b"GGUF":
        raise InputError(WRONG_MAGIC(found=repr(magic)[1:]), Place(source.name))
    (version,) = cursor.unpack(U32)
    if version in (1 << 24, 2 << 24, 3 << 24):
        raise InputError(BIG_ENDIAN(), Place(source.name))
    if version not in (2, 3):
        raise InputError(WRONG_VERSION(found=version), Place(source.name))
    num_tensors, num_keys = cursor.unpack(TWO_COUNTS)
    if num_tensors > MAX_TENSORS:
        raise InputError(TOO_MANY_TENSORS(found=num_tensors, accepted=MAX_TENSORS), Place(source.name))
    if num_keys > MAX_KEYS:
        raise InputError(TOO_MANY_KEYS(found=num_keys, accepted=MAX_KEYS), Place(source.name))
    metadata = _metadata(cursor, num_keys)
    alignment = _alignment(metadata, source.name)
    return Weights(_tensors(cursor, num_tensors, alignment), metadata)


def read_parts(folder: Folder, names: tuple[str, ...]) -> Weights:
    """A whole model: all the tensors under the first part's metadata.

    Raises `InputError` when the parts do not belong together, `UnreachableError` when one is not there.
    """

    def read(name: str) -> Weights:
        with folder.open(name) as source:
            return read_gguf(source)

    parts = folder.each(read, names)
    for number, (part, name) in enumerate(zip(parts, names, strict=True)):
        _expect(part.metadata.get("split.count", 1), len(parts), folder.address(name), "split.count")
        _expect(part.metadata.get("split.no", 0), number, folder.address(name), "split.no")
    tensors = tuple(tensor for part in parts for tensor in part.tensors)
    if len(parts) > 1:
        first = folder.address(names[0])
        _expect(parts[0].metadata.get("split.tensors.count"), len(tensors), first, "split.tensors.count")
        _check_unique(tensors, first)
    return Weights(tensors, parts[0].metadata)


def _check_unique(tensors: tuple[Tensor, ...], name: str) -> None:
    seen: set[str] = set()
    for tensor in tensors:
        if tensor.name in seen:
            raise InputError(DUPLICATE(), key_at(name, tensor.name))
        seen.add(tensor.name)


def _expect(found: Value | None, accepted: int, name: str, key: str) -> None:
    if type(found) is not int or found != accepted:
        raise InputError(BAD_SPLIT(found=legible(str(found)), accepted=accepted), key_at(name, key))


U32 = struct.Struct("<I")
TWO_COUNTS = struct.Struct("<QQ")
DIMENSIONS_AND_REST = [struct.Struct(f"<{count}qiQ") for count in range(5)]


def _metadata(cursor: Cursor, count: int) -> dict[str, Value]:
    metadata: dict[str, Value] = {}
    for _ in range(count):
        key = cursor.name()
        if key in metadata:
            raise InputError(DUPLICATE(), key_at(cursor.source.name, key))
        metadata[key] = read_value(cursor, key)
    return metadata


def _alignment(metadata: dict[str, Value], name: str) -> int:
    alignment = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
    if type(alignment) is not int or not 0 < alignment < 2**32 or alignment & (alignment - 1):
        raise InputError(BAD_ALIGNMENT(found=legible(str(alignment))), key_at(name, "general.alignment"))
    return alignment


def _tensors(cursor: Cursor, count: int, alignment: int) -> tuple[Tensor, ...]:
    file = cursor.source.name
    tensors: dict[str, Tensor] = {}
    position = end = 0
    for _ in range(count):
        name = cursor.name()
        place = key_at(file, name)
        if name in tensors:
            raise InputError(DUPLICATE(), place)
        (num_dimensions,) = cursor.unpack(U32)
        if num_dimensions > 4:
            raise InputError(BAD_SHAPE(found=num_dimensions), place)
        *ne, type_id, offset = cursor.unpack(DIMENSIONS_AND_REST[num_dimensions])
        dtype = GGUF_TYPES.get(type_id)
        if dtype is None:
            raise InputError(UNKNOWN_TYPE(found=type_id), place)
        if offset != position:
            raise InputError(WRONG_OFFSET(found=offset, accepted=position), place)
        shape = tuple(reversed(ne))
        tensors[name] = tensor = Tensor(name, shape, dtype, tensor_bytes(shape, dtype, place))
        end = offset + tensor.bytes
        position = -(-end // alignment) * alignment
    data_start = -(-cursor.position // alignment) * alignment
    data_bytes = cursor.source.size_bytes - data_start
    if end > max(data_bytes, 0):
        last = next(tensor.name for tensor in reversed(tensors.values()))
        raise InputError(DATA_PAST_END(found=end, accepted=max(data_bytes, 0)), key_at(file, last))
    return tuple(tensors.values())
