"""Safetensors: an 8-byte little-endian length, a JSON header, then the tensors' bytes without a gap.

Only the header is read. Legend: a span is the pair (begin, end) of `data_offsets`, counted from the end of the
header; bits per element come from `formats.blocks`. Source: the format's README (huggingface/safetensors, "Format")
and its list of header attacks; limits below are ours and tighter.
"""

from __future__ import annotations

from typing import Annotated, Any, NoReturn

import msgspec

from capienza.artifacts.source import Source, key_at, legible
from capienza.errors import InputError, Place, template
from capienza.formats.blocks import BLOCKS, SAFETENSORS_DTYPES
from capienza.formats.tensor import Tensor

MAX_HEADER_BYTES = 12 * 1024**2
"""Largest header read. The largest public shard we know of has about 0.5 MB; the format allows 100 MB."""
MAX_TENSORS = 65_536
"""Most tensors in one file: it bounds what a hostile header can make us allocate."""
MAX_DIMENSIONS = 16
MAX_METADATA_ENTRIES = 16_384
FIRST_READ_BYTES = 96 * 1024
"""Length and header of most shards in one read, so that a remote file costs one request."""

TOO_SHORT = template(
    "artifacts.safetensors-too-short",
    "has {size} B, too few for a safetensors file, which begins with an 8-byte length",
    "the file is truncated: download it again",
)
NOT_SAFETENSORS = template(
    "artifacts.safetensors-wrong-magic",
    "is not a safetensors file: it begins with {found}, where a header length and `{{` are expected",
    "give a file written by safetensors; pickled weights (.bin, .pt) are not read",
)
LFS_POINTER = template(
    "artifacts.lfs-pointer",
    "is a Git LFS pointer, not the weights",
    "run `git lfs pull` in the clone, or fetch the model with `hf download`",
)
HEADER_TOO_LARGE = template(
    "artifacts.safetensors-header-too-large",
    "says its header has {found} B; at most {accepted} B are read",
    "the file is damaged or hostile: download it again from its source",
)
HEADER_PAST_END = template(
    "artifacts.safetensors-truncated",
    "says its header has {found} B, but the file ends after {size} B",
    "the file is truncated: download it again",
)
TOO_MANY = template(
    "artifacts.safetensors-too-many-values",
    "the header holds more values than are read from one file: at most {accepted} tensors of {dimensions} dimensions",
    "split the model into several files",
)
BAD_HEADER = template(
    "artifacts.safetensors-bad-header",
    "the header is not the JSON that safetensors writes: {reason}",
    "the file is damaged: download it again",
)
BAD_ENTRY = template(
    "artifacts.safetensors-bad-entry",
    "a tensor has exactly dtype (a text), shape (at most {dimensions} whole numbers) and data_offsets (two): {reason}",
    "the file is damaged, or was written by a version this reader does not know",
)
UNKNOWN_DTYPE = template(
    "artifacts.safetensors-unknown-dtype",
    "the dtype {found} is not known; accepted: {accepted}",
    "update capienza, or convert the file to a known dtype",
)
DUPLICATE_KEY = template(
    "artifacts.safetensors-duplicate-key",
    "the header gives this key twice",
    "the file is damaged or hostile: two readers would disagree about it",
)
WRONG_EXTENT = template(
    "artifacts.safetensors-wrong-extent",
    "{dtype} of shape [{shape}] takes {accepted} B, but its offsets span {found} B",
    "the file is damaged: download it again",
)
NOT_CONTIGUOUS = template(
    "artifacts.safetensors-not-contiguous",
    "its bytes begin at {found}, where {accepted} is expected: tensors must follow each other without gap or overlap",
    "the file is damaged or hostile: download it again from its source",
)
WRONG_SIZE = template(
    "artifacts.safetensors-wrong-size",
    "the header describes {accepted} B of tensors, the file holds {found} B of them",
    "the file is truncated or has extra bytes: download it again",
)

FIELDS = frozenset({"dtype", "shape", "data_offsets"})
Size = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class Header(msgspec.Struct, frozen=True):
    """What one safetensors file says about itself."""

    tensors: tuple[Tensor, ...]
    metadata: dict[str, str]


class _Entry(msgspec.Struct, gc=False):
    # `__metadata__` lies among the tensors; as text in these fields it decodes too, and is taken out afterwards.
    dtype: str = ""
    shape: tuple[Size, ...] | str = ""
    data_offsets: tuple[Size, Size] | str = ""


class _Metadata(msgspec.Struct):
    metadata: msgspec.Raw = msgspec.field(default=msgspec.Raw(b"{}"), name="__metadata__")


_ENTRIES = msgspec.json.Decoder(dict[str, _Entry])
_METADATA = msgspec.json.Decoder(_Metadata)
_TEXTS = msgspec.json.Decoder(dict[str, str])


def read_header(source: Source) -> Header:
    """The tensors of one file, in the header's order, and its `__metadata__`.

    Raises `InputError` for anything that the format does not allow: see the templates above.
    """
    text = _header_text(source)
    try:
        metadata, table = _decode(text, source.name)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        _explain(text, error, source.name)
    # Every JSON string costs two quotes: ten for each tensor (its name, three keys, its dtype) and four for each
    # metadata pair. More quotes mean a repeated or unknown key, which decoding would have dropped in silence.
    own_quotes = 0 if table.pop("__metadata__", None) is None else 2 + 4 * len(metadata)
    if text.count(b'"') != own_quotes + 10 * len(table):
        _refuse_other_keys(text, source.name)
    data_bytes = source.size_bytes - 8 - len(text)
    return Header(_tensors(table, data_bytes, source.name), metadata)


def _header_text(source: Source) -> bytes:
    if source.size_bytes < 8:
        raise InputError(TOO_SHORT(size=source.size_bytes), Place(source.name))
    first = source.read(0, min(FIRST_READ_BYTES, source.size_bytes))
    if first.startswith(b"version https://git-lfs"):
        raise InputError(LFS_POINTER(), Place(source.name))
    length = int.from_bytes(first[:8], "little")
    if first[8:9] != b"{":
        raise InputError(NOT_SAFETENSORS(found=repr(first[:9])[1:]), Place(source.name))
    if length > MAX_HEADER_BYTES:
        raise InputError(HEADER_TOO_LARGE(found=length, accepted=MAX_HEADER_BYTES), Place(source.name))
    if 8 + length > source.size_bytes:
        raise InputError(HEADER_PAST_END(found=length, size=source.size_bytes), Place(source.name))
    have = first[8 : 8 + length]
    text = have + source.read(8 + len(have), length - len(have))
    # Checked on the bytes, before anything is built from them.
    if text.count(b"{") > MAX_TENSORS + 2 or text.count(b",") > MAX_DIMENSIONS * MAX_TENSORS:
        raise InputError(TOO_MANY(accepted=MAX_TENSORS, dimensions=MAX_DIMENSIONS), Place(source.name))
    return text


def _decode(text: bytes, name: str) -> tuple[dict[str, str], dict[str, _Entry]]:
    raw = bytes(_METADATA.decode(text).metadata)
    # Programs store JSON as text in the metadata, full of escaped quotes: these are no entries.
    if raw.count(b'"') - raw.count(b'\\"') > 4 * MAX_METADATA_ENTRIES:
        raise InputError(TOO_MANY(accepted=MAX_TENSORS, dimensions=MAX_DIMENSIONS), key_at(name, "__metadata__"))
    metadata = _TEXTS.decode(raw)
    return metadata, _ENTRIES.decode(text)


def _tensors(table: dict[str, _Entry], data_bytes: int, name: str) -> tuple[Tensor, ...]:
    tensors = []
    spans = []
    for key, entry in table.items():
        shape, span = entry.shape, entry.data_offsets
        if isinstance(shape, str) or isinstance(span, str) or len(shape) > MAX_DIMENSIONS:
            reason = f"shape={shape!r:.64}, data_offsets={span!r:.64}"
            raise InputError(BAD_ENTRY(dimensions=MAX_DIMENSIONS, reason=reason), key_at(name, key))
        dtype = SAFETENSORS_DTYPES.get(entry.dtype)
        if dtype is None:
            accepted = tuple(SAFETENSORS_DTYPES)
            raise InputError(UNKNOWN_DTYPE(found=legible(entry.dtype), accepted=accepted), key_at(name, key))
        block = BLOCKS[dtype]
        elements = 1
        for size in shape:
            elements *= size
        begin, end = span
        extent = end - begin
        if elements * block.bytes != extent * block.elements or extent < 0:
            needed = -(-elements * block.bytes // block.elements)
            shown = ", ".join(map(str, shape))
            raise InputError(WRONG_EXTENT(dtype=dtype, shape=shown, accepted=needed, found=extent), key_at(name, key))
        spans.append(span)
        tensors.append(Tensor(key, shape, dtype, extent))
    _check_contiguous(spans, table, data_bytes, name)
    return tuple(tensors)


def _check_contiguous(spans: list[tuple[int, int]], table: dict[str, _Entry], data_bytes: int, name: str) -> None:
    position = 0
    for span in sorted(spans):
        if span[0] != position:
            key = next(key for key, entry in table.items() if entry.data_offsets == span)
            raise InputError(NOT_CONTIGUOUS(found=span[0], accepted=position), key_at(name, key))
        position = span[1]
    if position != data_bytes:
        raise InputError(WRONG_SIZE(found=data_bytes, accepted=position), Place(name))


def _explain(text: bytes, error: Exception, name: str) -> NoReturn:
    """Name the tensor that msgspec could not read; a header that is no JSON at all has none."""
    place = Place(name)
    reason = type(error).__name__ if isinstance(error, RecursionError) else str(error)
    if isinstance(error, msgspec.ValidationError):
        entry = msgspec.json.Decoder(_Entry)
        try:
            entries = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        except msgspec.DecodeError:  # a byte further on that is no text
            entries = {}
        for key, raw in entries.items():
            try:
                (_TEXTS if key == "__metadata__" else entry).decode(raw)
            except msgspec.DecodeError as inner:
                message = BAD_ENTRY(dimensions=MAX_DIMENSIONS, reason=str(inner))
                raise InputError(message, key_at(name, key)) from error
    raise InputError(BAD_HEADER(reason=reason), place) from error


def _refuse_other_keys(text: bytes, name: str) -> None:
    """Find the repeated or unknown key that made the count of quotes differ; escaped quotes alone are allowed."""

    def keys_of(pairs: list[tuple[str, Any]]) -> frozenset[str]:
        keys = set()
        for key, inner in pairs:
            if key in keys:
                raise InputError(DUPLICATE_KEY(), key_at(name, key))
            keys.add(key)
            if isinstance(inner, frozenset) and inner is not FIELDS and key != "__metadata__":
                reason = legible(", ".join(sorted(inner)))
                raise InputError(BAD_ENTRY(dimensions=MAX_DIMENSIONS, reason=reason), key_at(name, key))
        return FIELDS if keys == FIELDS else frozenset(keys)

    import json

    try:
        json.loads(text, object_pairs_hook=keys_of)
    except (ValueError, RecursionError) as error:  # no UTF-8, a number of thousands of digits
        raise InputError(BAD_HEADER(reason=type(error).__name__), Place(name)) from error
