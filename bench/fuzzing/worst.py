"""Inputs at the limits of what is read: as large, deep, many and repeated as a small program can write them."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator

from fuzzing.gguf_writer import ARRAY, GGML_F32, STRING, U8, U32, Array, GgufTable, write_gguf
from fuzzing.mutate import Case
from fuzzing.seeds import CSV_OFFERS, FLAT_OFFERS, LLAMA, encoded, pack_safetensors

MB = 1_000_000
Make = Callable[[], bytes]

JSON_TEXTS: dict[str, Callable[[int], str]] = {
    "open-lists": lambda size: "[" * size,
    "open-objects": lambda size: '{"a":' * (size // 5),
    "lists": lambda size: '{"a":[' + "[]," * (size // 3) + "0]}",
    "objects": lambda size: '{"a":[' + "{}," * (size // 3) + "0]}",
    "numbers": lambda size: '{"a":[' + "1," * (size // 2) + "0]}",
    "floats": lambda size: '{"a":[' + "1e9," * (size // 4) + "0]}",
    "texts": lambda size: '{"a":[' + '"",' * (size // 3) + "0]}",
    "long-text": lambda size: '{"a":"' + "x" * size + '"}',
    "escapes": lambda size: '{"a":"' + "\\u0041" * (size // 6) + '"}',
    "open-text": lambda size: '{"a":"' + "\\\\" * (size // 2),
    "quotes": lambda size: '"' * size,
    "long-number": lambda size: '{"a":' + "9" * size + "}",
    "keys": lambda size: "{" + ",".join(f'"k{number}":0' for number in range(size // 12)) + "}",
    "repeated-keys": lambda size: "{" + '"a":0,' * (size // 6) + '"a":0}',
    "repeat-at-the-end": lambda size: "{" + ",".join(f'"k{n}":0' for n in range(min(size // 12, 70_000))) + ',"k0":0}',
    "spaces": lambda size: " " * size + "{}",
    "zeros": lambda size: "\x00" * size,
}  # fmt: skip

YAML_TEXTS: dict[str, Callable[[int], str]] = {
    "dashes": lambda size: "- " * (size // 2),
    "questions": lambda size: "? " * (size // 2),
    "colons": lambda size: "a: " * (size // 3),
    "open-lists": lambda size: "[" * size,
    "open-pairs": lambda size: "{a: " * (size // 4),
    "keys": lambda size: "".join(f"k{number}: 0\n" for number in range(size // 11)),
    "repeated-keys": lambda size: "a: 0\n" * (size // 5),
    "anchors": lambda size: "a: [" + "&a b," * (size // 5) + "c]\n",
    "aliases": lambda size: "a: &a [x]\nb: [" + "*a," * (size // 3) + "c]\n",
    "tags": lambda size: "a: [" + "!a b," * (size // 5) + "c]\n",
    "documents": lambda size: "---\n" * (size // 4),
    "comments": lambda size: "#\n" * (size // 2),
    "open-text": lambda size: 'a: "' + "\n" * size,
    "block": lambda size: "a: |\n" + " x\n" * (size // 3),
    "long-key": lambda size: "x" * size + ": 1\n",
    "bad-items": lambda size: "- x\n" * (size // 4),
    "empty-items": lambda size: "- {}\n" * (size // 5),
    "zeros": lambda size: "\x00" * size,
}


def csv_texts() -> dict[str, str]:
    header, first, _ = CSV_OFFERS.splitlines(keepends=True)
    return {
        "one-line": "x" * 30 * MB,
        "columns": "a," * 5 * MB,
        "open-quote": header + '"' + "x\n" * 5 * MB,
        "quotes": header + '"' * 10 * MB,
        "short-records": header + "x\n" * 500_000,
        "empty-cells": header + "," * 10 * MB,
        "repeated": header + first * 20_000,
        "zeros": "\x00" * 10 * MB,
        "returns": "\r" * 10 * MB,
    }


def safetensors_headers() -> dict[str, str]:
    def entries(count: int, shape: str = "[0]") -> str:
        rows = (f'"t{number}":{{"dtype":"F32","shape":{shape},"data_offsets":[0,0]}}' for number in range(count))
        return "{" + ",".join(rows) + "}"

    return {
        "most-tensors": entries(65_536),
        "too-many-tensors": entries(200_000),
        "many-dimensions": entries(10_000, "[" + "0," * 15 + "0]"),
        "dimensions": entries(1, "[" + "1," * 4 * MB + "1]"),
        "metadata": '{"__metadata__":{' + ",".join(f'"k{n}":"v"' for n in range(500_000)) + "}}",
        "same-name": "{" + '"t":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},' * 100_000 + '"t":{}}',
    }


def gguf_files() -> dict[str, Make]:
    start = [("general.architecture", STRING, "llama")]

    def table(metadata: list[tuple[str, int, object]], tensors: list[tuple[str, list[int], int]]) -> Make:
        return lambda: write_gguf(GgufTable(3, [*start, *metadata], tensors))[0]

    def count(tensors: int, keys: int) -> Make:
        return lambda: b"GGUF" + struct.pack("<IQQ", 3, tensors, keys) + bytes(10 * MB)

    return {
        "keys": table([(f"k{number}", U8, 1) for number in range(65_000)], []),
        "long-keys": table([(f"{number:05}" + "k" * 1000, U8, 1) for number in range(20_000)], []),
        "long-texts": table([(f"k{number}", STRING, "v" * 60_000) for number in range(400)], []),
        "vocabulary": table([("tokenizer.ggml.tokens", ARRAY, Array(STRING, [""] * 1_000_000))], []),
        "numbers": table([("a", ARRAY, Array(U32, [1] * 1_000_000))], []),
        "arrays": table([(f"k{number}", ARRAY, Array(U32, [1] * 4096)) for number in range(400)], []),
        "tensors": table([], [(f"t{number}", [1, 1, 1, 1], GGML_F32) for number in range(65_000)]),
        "most-counts": count(2**63 - 1, 2**63 - 1),
        "zero-keys": count(0, 65_536),
        "zero-tensors": count(65_536, 0),
    }


def worst_cases(kind: str) -> Iterator[Case]:
    """The inputs of one kind, one at a time: together they would not fit."""
    if kind == "safetensors":
        yield from _worst_safetensors()
    elif kind == "gguf":
        for name, write in gguf_files().items():
            yield _case(kind, name, "model.gguf", write())
    elif kind == "config":
        for name, make in JSON_TEXTS.items():
            for size in (300_000, 8 * MB):
                yield _case(kind, f"{name}-{size}", "config.json", make(size).encode())
    elif kind == "card":
        for name, make in YAML_TEXTS.items():
            yield _case(kind, name, "card.yaml", make(250_000).encode())
    else:
        yield from _worst_offers()


def _worst_safetensors() -> Iterator[Case]:
    company = {"config.json": encoded(LLAMA)}
    headers = safetensors_headers()
    for size in (MB, 4 * MB, 16 * MB):
        headers |= {f"{name}-{size}": make(size) for name, make in JSON_TEXTS.items()}
    for name, text in headers.items():
        yield _case("safetensors", name, "model.safetensors", pack_safetensors(text.encode(), 0), company)
    for count in (10_000, 250_000):
        weight_map = {f"t{number}": "model-00001-of-00001.safetensors" for number in range(count)}
        index = json.dumps({"weight_map": weight_map}).encode()
        yield _case("safetensors", f"index-{count}", "model.safetensors.index.json", index, company)


def _worst_offers() -> Iterator[Case]:
    offer = json.dumps(FLAT_OFFERS[0])
    for name, make in YAML_TEXTS.items():
        for size in (60_000, 4 * MB):
            yield _case("offers", f"yaml-{name}-{size}", "offers.yaml", make(size).encode())
    for name, make in JSON_TEXTS.items():
        for size in (60_000, MB, 15 * MB):
            yield _case("offers", f"json-{name}-{size}", "offers.json", f"[{make(size)}]".encode())
        yield _case("offers", f"jsonl-{name}", "offers.jsonl", (make(60_000) + "\n").encode() * 50)
    yield _case("offers", "json-list", "offers.json", ("[" + f"{offer}," * 60_000 + f"{offer}]").encode())
    yield _case("offers", "jsonl-lines", "offers.jsonl", (f"{offer}\n" * 60_000).encode())
    yield _case("offers", "jsonl-long", "offers.jsonl", (('{"a":"' + "x" * 60_000 + '"}\n') * 500).encode())
    for name, text in csv_texts().items():
        yield _case("offers", f"csv-{name}", "offers.csv", text.encode())


def _case(kind: str, name: str, target: str, data: bytes, company: dict[str, bytes] | None = None) -> Case:
    return Case(kind, f"worst-{name}", (company or {}) | {target: data}, target)
