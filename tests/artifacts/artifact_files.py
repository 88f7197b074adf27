"""Small files of every kind, good and bad, written byte by byte."""

import json
import struct
from pathlib import Path

from capienza.artifacts.source import Source

BITS = {"F32": 32, "F16": 16, "BF16": 16, "I64": 64, "U8": 8, "F8_E4M3": 8, "F4": 4, "F6_E2M3": 6, "F8_E8M0": 8}


class BytesSource(Source):
    """Bytes in memory, as a source."""

    def __init__(self, data: bytes, name: str = "made.bin") -> None:
        super().__init__(name, len(data))
        self.data = data

    def fetch(self, offset: int, length: int) -> bytes:
        self.bytes_read += length
        return self.data[offset : offset + length]


def header_of(tensors: dict[str, tuple[str, list[int]]], metadata: dict[str, str] | None = None) -> tuple[dict, int]:
    """A correct header and the bytes of data that it describes."""
    header: dict = {} if metadata is None else {"__metadata__": metadata}
    at = 0
    for name, (dtype, shape) in tensors.items():
        count = 1
        for size in shape:
            count *= size
        size_bytes = count * BITS[dtype] // 8
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size_bytes]}
        at += size_bytes
    return header, at


def safetensors_bytes(header: dict | bytes | str, data_bytes: int = 0, length: int | None = None) -> bytes:
    """A safetensors file with zeros as data; `header` as text stays as it is."""
    if isinstance(header, dict):
        header = json.dumps(header, separators=(",", ":"))
    text = header.encode() if isinstance(header, str) else header
    return struct.pack("<Q", len(text) if length is None else length) + text + bytes(data_bytes)


def write_safetensors(path: Path, tensors: dict[str, tuple[str, list[int]]], **metadata: str) -> None:
    header, data_bytes = header_of(tensors, metadata or None)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(safetensors_bytes(header, data_bytes))


def write_sharded(folder: Path, shards: dict[str, dict[str, tuple[str, list[int]]]]) -> dict[str, str]:
    """Files and their `model.safetensors.index.json`; the weight map."""
    weight_map = {}
    for file, tensors in shards.items():
        write_safetensors(folder / file, tensors, format="pt")
        weight_map |= dict.fromkeys(tensors, file)
    total = header_of({name: shape for tensors in shards.values() for name, shape in tensors.items()})[1]
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2))
    return weight_map


TWO_SHARDS = {
    "model-00001-of-00002.safetensors": {"a": ("BF16", [4, 8]), "b": ("F32", [3])},
    "model-00002-of-00002.safetensors": {"c": ("BF16", [2, 2])},
}

VALUE_CODES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


def text_value(text: str | bytes) -> bytes:
    data = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(data)) + data


def gguf_key(key: str | bytes, kind: int, value: object) -> bytes:
    """One key with its value; an array is given as (element type, list)."""
    return text_value(key) + struct.pack("<i", kind) + gguf_value(kind, value)


def gguf_value(kind: int, value: object) -> bytes:
    if kind == 8:
        assert isinstance(value, str | bytes)
        return text_value(value)
    if kind == 9:
        assert isinstance(value, tuple)
        inner, items = value
        return struct.pack("<iQ", inner, len(items)) + b"".join(gguf_value(inner, item) for item in items)
    return struct.pack("<" + VALUE_CODES[kind], value)


def gguf_tensor(name: str | bytes, ne: list[int], type_id: int, offset: int) -> bytes:
    return text_value(name) + struct.pack(f"<I{len(ne)}qiQ", len(ne), *ne, type_id, offset)


def gguf_bytes(
    keys: list[bytes] = [],  # noqa: B006
    tensors: list[bytes] = [],  # noqa: B006
    data_bytes: int = 0,
    *,
    magic: bytes = b"GGUF",
    version: int = 3,
    counts: tuple[int, int] | None = None,
    alignment: int = 32,
) -> bytes:
    num_tensors, num_keys = counts or (len(tensors), len(keys))
    head = magic + struct.pack("<Iqq", version, num_tensors, num_keys) + b"".join(keys) + b"".join(tensors)
    return head + bytes(-len(head) % alignment) + bytes(data_bytes)
