"""The worst files we can think of: each ends in an error within 64 MB above an idle start.

Every case runs in a process of its own, because a peak is never given back. What the files cost to read is the
point, so they are as large as the limits allow.
"""

import resource
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from artifact_files import gguf_bytes, gguf_key, safetensors_bytes, text_value, write_safetensors

from capienza.artifacts.index import MAX_INDEX_BYTES, MAX_INDEX_ENTRIES
from capienza.artifacts.json_text import MAX_DEPTH, MAX_DOCUMENT_BYTES, MAX_VALUES
from capienza.artifacts.safetensors import MAX_HEADER_BYTES, MAX_TENSORS

LIMIT_BYTES = 64 * 10**6
PROGRAM = """
import resource, sys
from capienza.artifacts.model import open_model
from capienza.errors import InputError
import difflib, json
def peak_bytes():
    for line in open("/proc/self/status"):
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
idle = peak_bytes()
try:
    open_model(sys.argv[1])
except InputError as error:
    print(error.message.code, peak_bytes() - idle)
"""


def measure(path: Path) -> tuple[str, int]:
    def limits() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
        resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))

    made = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path)], capture_output=True, text=True, preexec_fn=limits, check=False
    )
    assert made.stdout, made.stderr[-2000:]
    code, grown = made.stdout.split()
    return code, int(grown)


def tensors(count: int, last: str) -> str:
    """Valid entries as short as they come, then one that is not."""
    entries = (f'"{number:x}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}' for number in range(count))
    return "{" + ",".join(entries) + "," + last + "}"


def fill(text: str, unit: str, end: str = "") -> str:
    return text + unit * ((MAX_HEADER_BYTES - len(text) - len(end)) // len(unit)) + end


LAST = '"z":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}'
HUGE_NAMES = '{"' + '":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"'.join(
    f"{number:x}" + "n" * 120 for number in range(MAX_TENSORS)
)
SAFETENSORS: dict[str, Callable[[], bytes]] = {
    "every tensor allowed": lambda: safetensors_bytes(tensors(MAX_TENSORS, LAST), 1),
    "every tensor allowed, one of a wrong type": lambda: safetensors_bytes(tensors(MAX_TENSORS, '"z":{"dtype":1}')),
    "every tensor allowed, one with another key": lambda: safetensors_bytes(tensors(MAX_TENSORS, '"z":{"x":1}')),
    "long names": lambda: safetensors_bytes(HUGE_NAMES + '":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}', 1),
    "spaces, then a repeated key": lambda: safetensors_bytes(
        fill(tensors(MAX_TENSORS - 1, LAST)[:-1], " ", ',"0":{}}'), 1
    ),
    "a repeated key in compact text": lambda: safetensors_bytes(
        tensors(MAX_TENSORS - 1, '"z":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}')[:-1] + "," + LAST + "}", 1
    ),
    "an endless shape": lambda: safetensors_bytes('{"a":{"dtype":"U8","shape":[' + "0," * (2**20 - 3) + "0]}}"),
    "a long number": lambda: safetensors_bytes(fill('{"a":{"dtype":"U8","shape":[', "9", "]}}")),
    "deep nesting": lambda: safetensors_bytes(fill('{"a":', "[")),
    "metadata of tiny pairs": lambda: safetensors_bytes(fill('{"__metadata__":{"a":""', ',"":""', "}}")),
    "one long name": lambda: safetensors_bytes(fill('{"', "n", '":{"dtype":"U8","shape":[1],"data_offsets":[0,2]}}')),
    "escapes": lambda: safetensors_bytes(
        fill('{"__metadata__":{"a":"', '\\"', '"},"a":{"dtype":"U8","shape":[9],"data_offsets":[0,1]}}')
    ),
}
GGUF: dict[str, Callable[[], bytes]] = {
    "metadata that is kept": lambda: gguf_bytes([gguf_key(f"k{n}", 8, "x" * 65_000) for n in range(300)]),
    "arrays that are kept": lambda: gguf_bytes([gguf_key(f"k{n}", 9, (0, list(range(256)) * 16)) for n in range(300)]),
    "texts in arrays that are kept": lambda: gguf_bytes([gguf_key(f"k{n}", 9, (8, [""] * 4096)) for n in range(100)]),
    "many keys": lambda: gguf_bytes([gguf_key(f"k{n}" + "k" * 900, 0, 1) for n in range(30_000)]),
    "a long vocabulary, cut": lambda: gguf_bytes(
        [text_value("tokenizer.t") + struct.pack("<iiQ", 9, 8, 2**21) + bytes(8 * (2**21 - 1))],
        counts=(0, 1),
        alignment=1,
    ),
    "every tensor allowed": lambda: gguf_bytes(
        [],
        [text_value(f"{n:x}") + struct.pack("<IqiQ", 1, 0, 0, 0) for n in range(65_535)] + [b"\x00" * 8 + b"\xff" * 20],
    ),
}
JSON: dict[str, Callable[[], bytes]] = {
    "empty lists": lambda: b'{"a":[' + b"[]," * (MAX_VALUES // 2 - 2) + b"NaN]}",
    "short keys": lambda: ("{" + ",".join(f'"{n:x}":[]' for n in range(MAX_VALUES // 2 - 2)) + ',"0":1}').encode(),
    "many quotes": lambda: b'"' * MAX_DOCUMENT_BYTES,
    "one long text": lambda: '{{"a":"{}"'.format("é" * (MAX_DOCUMENT_BYTES // 2 - 10)).encode(),
    "escaped quotes": lambda: b'{"a":"' + b'\\"' * 250_000,
    "deep objects": lambda: ('{"a":' * (MAX_DEPTH + 1)).encode(),
    "long number": lambda: b'{"a":' + b"9" * (MAX_DOCUMENT_BYTES - 10) + b"}",
}


@pytest.mark.parametrize("name", SAFETENSORS)
def test_safetensors(tmp_path, name):
    check(tmp_path / "model.safetensors", SAFETENSORS[name](), "artifacts.safetensors-")


@pytest.mark.parametrize("name", GGUF)
def test_gguf(tmp_path, name):
    check(tmp_path / "model.gguf", GGUF[name](), "artifacts.gguf-")


@pytest.mark.parametrize("name", JSON)
def test_json(tmp_path, name):
    check(tmp_path / "config.json", JSON[name](), "artifacts.json-")


@pytest.mark.parametrize("end", ['"0":"model.safetensors"}}', '"z":"none.safetensors"}}', '"z":1}}'])
def test_index(tmp_path, end):
    write_safetensors(tmp_path / "model.safetensors", {"a": ("U8", [1])})
    room = MAX_INDEX_BYTES // MAX_INDEX_ENTRIES - 24
    entries = (f'"{number:x}{"n" * (room - 10)}":"model.safetensors",' for number in range(MAX_INDEX_ENTRIES - 2))
    text = '{"weight_map":{' + "".join(entries) + end
    assert len(text) < MAX_INDEX_BYTES
    (tmp_path / "model.safetensors.index.json").write_text(text)
    code, grown = measure(tmp_path)
    assert code.startswith("artifacts.index-")
    assert grown < LIMIT_BYTES


def check(path: Path, data: bytes, prefix: str) -> None:
    path.write_bytes(data)
    code, grown = measure(path)
    assert code.startswith(prefix)
    assert grown < LIMIT_BYTES
