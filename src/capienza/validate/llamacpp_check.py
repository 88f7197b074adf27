"""The form of a measured llama.cpp case: a value that no run has is said by its key before anything is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from capienza.errors import Message, phrase
from capienza.formats.blocks import BLOCKS
from capienza.validate.llamacpp_model import NAMES, PRINTED
from capienza.validate.row_check import IMPOSSIBLE, Accepted, shown

Row = Mapping[str, Any]
LARGEST = 2**40
LARGEST_MIB = 1e9
MAX_LAYERS = 10_000
SECTIONS = ("model", "runtime", "config", "consistency")
BUFFERS = (
    "model_buffers", "kv_buffers", "rs_buffers", "compute_buffers", "output_buffers", "compute_buffers_mib",
    "output_buffers_mib",
)  # fmt: skip
PARTS = ("model", "context", "compute")


def _is_whole(value: Any, least: int = 0, most: int = LARGEST) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_size(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < LARGEST_MIB


def _all(takes: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """The same for one value, or for each of a list that holds some."""
    return lambda value: all(map(takes, value)) and bool(value) if isinstance(value, list) else takes(value)


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | bool | float) or _is_whole(value, least=-1)


WHOLE = Accepted(phrase("a whole number of at least 0"), _is_whole)
COUNT = Accepted(phrase("a whole number of at least 1"), lambda value: _is_whole(value, 1))
LAYERS = Accepted(phrase("a whole number from 1 to 10000"), lambda value: _is_whole(value, 1, MAX_LAYERS))
WHOLES = Accepted(phrase("a whole number of at least 0, or a list of them"), _all(_is_whole))
SIZE = Accepted(phrase("a number of at least 0"), _is_size)
SIZES = Accepted(phrase("a number of at least 0, or a list of them"), _all(_is_size))
PLAIN = Accepted(phrase("a number, a text, or a list of them"), _all(_is_plain))
WORD = Accepted(phrase("a text"), lambda value: isinstance(value, str))
OFFLOADED = Accepted(phrase("a whole number of at least -1"), lambda value: _is_whole(value, -1))
OBJECT = Accepted(phrase("an object"), lambda value: isinstance(value, Mapping))
OBJECTS = Accepted(phrase("a list of objects"), lambda value: isinstance(value, list) and all(map(OBJECT.takes, value)))
CACHE_TYPE = Accepted(
    "f32, f16, bf16, q8_0, q4_0, ...", lambda value: isinstance(value, str) and NAMES.get(value, value) in BLOCKS
)
OF_ROW = {**dict.fromkeys(SECTIONS, OBJECT), "devices": OBJECTS, "build": WORD, "argv": WORD}
OF_MODEL = {
    **dict.fromkeys(PRINTED.values(), WHOLE),
    **dict.fromkeys(("n_head_kv", "n_ff", "n_embd_k_gqa", "n_embd_v_gqa"), WHOLES),
    "n_layer": LAYERS, "n_embd": COUNT, "n_head": COUNT, "arch": WORD, "size_gib": SIZE, "gguf": OBJECT,
    "tensor_types": OBJECT,
}  # fmt: skip
OF_RUNTIME = {
    **dict.fromkeys(("n_batch", "n_ubatch", "n_seq_max"), COUNT),
    **dict.fromkeys(("n_ctx", "n_outputs_max", "n_rs_seq", "n_cpu_moe", "mla_attn"), WHOLE),
    "n_gpu_layers": OFFLOADED, "type_k": CACHE_TYPE, "type_v": CACHE_TYPE,
}  # fmt: skip
BY_LAYER = ("n_head", "n_head_kv", "n_ff", "attention.head_count", "attention.head_count_kv", "feed_forward_length")
WHOLES_OR_CUT = Accepted(WHOLES.text, lambda value: isinstance(value, str) or WHOLES.takes(value))
"""A log cuts a long list short and prints it as text."""
OF_KEYS = {**{key: WHOLES_OR_CUT if key in BY_LAYER else WHOLE for key in PRINTED}, "block_count": LAYERS}
OF_CONFIG = {"ngl": OFFLOADED, "n": WHOLE, "cmoe": WHOLE, "ts": WORD}


def odd_value(row: Row) -> Message | None:
    """The first value that no case has; None when there is none."""
    return next(_odd_values(row), None)


def _odd_values(row: Row) -> Iterator[Message]:
    yield from _each({name: row.get(name) for name in ("model", "runtime")}, OBJECT, "")
    yield from _checked(row, OF_ROW, "")
    model, measured = row["model"], row["measured"]
    yield from _checked(model, OF_MODEL, "model.")
    yield from _checked(row["runtime"], OF_RUNTIME, "runtime.")
    yield from _checked(row.get("config") or {}, OF_CONFIG, "config.")
    yield from _each(model.get("gguf") or {}, PLAIN, "model.gguf.")
    yield from _checked(model.get("gguf") or {}, OF_KEYS, "model.gguf.")
    yield from _lists(model, "model.")
    yield from _lists(model.get("gguf") or {}, "model.gguf.", model.get("n_layer"))
    for index, device in enumerate(row.get("devices") or ()):
        yield from _checked(device, {"name": WORD}, f"devices[{index}].")
    yield from _each(model.get("tensor_types") or {}, COUNT, "model.tensor_types.")
    yield from _checked(measured, {**dict.fromkeys(BUFFERS, OBJECT), "kv_total_mib": SIZE}, "measured.")
    for name in BUFFERS:
        yield from _each(measured.get(name) or {}, SIZES, f"measured.{name}.")
    yield from _breakdown(measured, "measured.")
    yield from _checked(measured, {"exact_bytes": OBJECT}, "measured.")
    yield from _breakdown(measured.get("exact_bytes") or {}, "measured.exact_bytes.")


def _lists(stated: Row, start: str, layers: Any = None) -> Iterator[Message]:
    """A list has one value for each layer."""
    layers = layers or stated.get("n_layer") or stated.get("block_count")
    for name, value in stated.items():
        if isinstance(value, list) and layers is not None and len(value) < layers and name in BY_LAYER:
            yield IMPOSSIBLE(key=f"{start}{name}", found=shown(value), accepted=WHOLES.text)


def _breakdown(measured: Row, start: str) -> Iterator[Message]:
    yield from _checked(measured, {"breakdown_bytes": OBJECT}, start)
    devices = measured.get("breakdown_bytes") or {}
    yield from _each(devices, OBJECT, f"{start}breakdown_bytes.")
    for device, parts in devices.items():
        yield from _each({name: parts.get(name) for name in PARTS}, WHOLE, f"{start}breakdown_bytes.{device}.")


def _checked(stated: Row, rules: Mapping[str, Accepted], start: str) -> Iterator[Message]:
    for name, accepted in rules.items():
        value = stated.get(name)
        if value is not None and not accepted.takes(value):
            yield IMPOSSIBLE(key=f"{start}{name}", found=shown(value), accepted=accepted.text)


def _each(stated: Row, accepted: Accepted, start: str) -> Iterator[Message]:
    for name, value in stated.items():
        if not accepted.takes(value):
            yield IMPOSSIBLE(key=f"{start}{name}", found=shown(value), accepted=accepted.text)
