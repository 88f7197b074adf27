"""The number formats of a model: what its configuration states, what its files hold, and where the two disagree.

Nothing is settled by a guess: what disagrees is named, and the entries that follow from it have no provable floor.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from capienza.architecture.model import Architecture
from capienza.errors import InputError, Message, Place, template
from capienza.formats.blocks import BLOCKS
from capienza.formats.tensor import Tensor

if TYPE_CHECKING:
    from capienza.formats.layout import Scheme

Doubt = Literal["weights", "cache", "format"]

OTHER_DTYPE = template(
    "predict.stored-in-another-format",
    "the files hold {stored} where config.json says {stated}",
    "the weights are counted as stored; state weights.format on the card for what is resident",
)
SEVERAL_DTYPES = template(
    "predict.several-number-formats",
    "config.json states number formats that contradict each other: {found}; {taken} is taken",
    "correct config.json, or state weights.format and the engine's kv_cache_dtype on the card",
)
UNKNOWN_DTYPE = template(
    "predict.unknown-dtype",
    "config.json states the number format {found}, which is not known; known: {accepted}",
    "the headers of the files are taken where there are any; correct torch_dtype in config.json",
)
NARROW_DTYPE = template(
    "predict.narrow-number-format",
    "config.json states {stated} for the whole model, in which engines keep no activations and, unless told, no cache",
    "the cache may be twice what is expected here; state the engine's kv_cache_dtype on the card",
)
QUANTISED_ON_PAPER = template(
    "predict.quantised-on-paper",
    "config.json states the quantisation {scheme}, the files hold {stored} alone",
    "an engine may refuse them or quantise them while loading, so nothing is proved of the weights from below; "
    "state weights.format on the card",
)
QUANTISED_UNSTATED = template(
    "predict.quantised-unstated",
    "the files hold {stored}, and config.json states no quantisation",
    "an engine may refuse them or convert them while loading, so nothing is proved of the weights from below; "
    "state weights.format on the card",
)
TWO_QUANTISATIONS = template(
    "predict.two-quantisations",
    "contradicts {other}, which states another quantisation",
    "keep the one that the files were written with",
)

TORCH_DTYPES = {
    "float32": "fp32",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float64": "fp64",
    "float8_e4m3fn": "fp8_e4m3",
    "float8_e5m2": "fp8_e5m2",
}
UNQUANTISED = frozenset({"bf16", "fp16", "fp32"})
PLAIN = UNQUANTISED | {"fp64"}
KEPT_SUFFIXES = (".weight", ".bias")
"""How the tensors that stay unquantised end; scales and tables beside quantised ones have suffixes of their own."""
CONSTANT_SUFFIXES = (".bias", "_mask", "_ids", "_tracked")
LEAST_PACKED = 20
"""Packed tensors count from a twentieth of all the bytes."""
DTYPE_KEYS = ("dtype", "torch_dtype")
QUANTISATION_KEYS = ("quantization_config", "compression_config")


OPEN_WITHOUT_HEADERS = frozenset({SEVERAL_DTYPES.code, UNKNOWN_DTYPE.code})
"""Notes that leave the format of the weights open where no file tells it."""


class NumberFormats(msgspec.Struct, frozen=True, kw_only=True):
    """`dtype` and `stored` as in `Model`; `doubts` names what the disagreements of `notes` leave unproved."""

    dtype: str | None
    stored: str | None
    scheme: Scheme | None
    notes: tuple[Message, ...]
    doubts: frozenset[Doubt]


def number_formats(
    config: Mapping[str, Any],
    tensors: Sequence[Tensor],
    architecture: Architecture | None,
    scheme: Scheme | None,
    *,
    is_quantised: bool,
) -> NumberFormats:
    """Formats of a model. `is_quantised`: the configuration states a quantisation, understood (`scheme`) or not."""
    stored = headers_dtype(tensors, is_quantised=is_quantised)
    dtype, notes, doubts = _stated_dtype(config, stored)
    if not tensors and any(note.code in OPEN_WITHOUT_HEADERS for note in notes):
        doubts = {*doubts, "weights"}
    held = {tensor.dtype for tensor in tensors}
    shown = ", ".join(sorted(held))
    if scheme is not None and held and _is_on_paper(scheme, held, architecture):
        notes.append(QUANTISED_ON_PAPER(scheme=scheme.name, stored=shown))
        scheme, doubts = None, {*doubts, "weights", "format"}
    elif not is_quantised and _is_packed(tensors):
        notes.append(QUANTISED_UNSTATED(stored=shown))
        doubts = {*doubts, "weights", "format"}
    return NumberFormats(
        dtype=dtype or stored, stored=stored, scheme=scheme, notes=tuple(notes), doubts=frozenset(doubts)
    )


def stated_quantisation(config: Mapping[str, Any], file: str) -> tuple[str, Any] | None:
    """The key that states how the weights are quantised, and what it says; None without one.

    Raises `InputError` when two keys say different things.
    """
    stated = [(key, value) for key, value in _at_levels(config, QUANTISATION_KEYS) if value]
    for key, value in stated[1:]:
        if value != stated[0][1]:
            raise InputError(TWO_QUANTISATIONS(other=stated[0][0]), Place(file, key=key))
    return stated[0] if stated else None


def headers_dtype(tensors: Iterable[Tensor], *, is_quantised: bool) -> str | None:
    """The unquantised format that most of the stored bytes have; None without headers.

    Beside quantised weights lie scales in formats of their own, which say nothing of the rest.
    """
    sizes: dict[str, int] = {}
    for tensor in tensors:
        if tensor.dtype in UNQUANTISED and not (is_quantised and not tensor.name.endswith(KEPT_SUFFIXES)):
            sizes[tensor.dtype] = sizes.get(tensor.dtype, 0) + tensor.bytes
    return max(sizes, key=sizes.__getitem__) if sizes else None


def _stated_dtype(config: Mapping[str, Any], stored: str | None) -> tuple[str | None, list[Message], Collection[Doubt]]:
    """The format that the configuration states, with what speaks against it."""
    stated = [(key, value) for key, value in _at_levels(config, DTYPE_KEYS) if value not in ("", "auto")]
    known = {key: TORCH_DTYPES[name] for key, value in stated if (name := _torch_name(value)) in TORCH_DTYPES}
    odd = [str(value)[:40] for key, value in stated if key not in known]
    dtype = next(iter(known.values()), None)
    notes: list[Message] = []
    if odd:
        notes.append(UNKNOWN_DTYPE(found=odd[0], accepted=tuple(TORCH_DTYPES)))
    if len(set(known.values())) > 1:
        found = tuple(f"{key} = {value}" for key, value in known.items())
        notes.append(SEVERAL_DTYPES(found=found, taken=next(iter(known.values()))))
    is_narrow = dtype is not None and BLOCKS[dtype].bytes < BLOCKS["bf16"].bytes
    if is_narrow:
        notes.append(NARROW_DTYPE(stated=dtype))
    doubts: set[Doubt] = {"cache"} if odd or is_narrow or not _are_as_wide(known.values()) else set()
    if dtype is not None and stored is not None and dtype != stored:
        notes.append(OTHER_DTYPE(stated=dtype, stored=stored))
        if not _are_as_wide((dtype, stored)):
            doubts |= {"cache", "weights"}
    return dtype, notes, doubts


def _torch_name(value: object) -> str:
    return value.removeprefix("torch.") if isinstance(value, str) else ""


def _are_as_wide(dtypes: Iterable[str]) -> bool:
    return len({BLOCKS[dtype].bytes for dtype in dtypes}) < 2


def _at_levels(config: Mapping[str, Any], keys: Iterable[str]) -> list[tuple[str, Any]]:
    """What the file and its text part state under these keys, where they state something."""
    text = config.get("text_config")
    levels = [("", config), *([("text_config.", text)] if isinstance(text, dict) else [])]
    return [(prefix + key, level[key]) for prefix, level in levels for key in keys if level.get(key) is not None]


def _is_on_paper(scheme: Scheme, held: set[str], architecture: Architecture | None) -> bool:
    """Do the files hold nothing that this quantisation writes?"""
    if held <= UNQUANTISED:
        return True
    if architecture is None:
        return False
    from capienza.formats.scheme import stored

    try:
        written = {
            tensor.dtype
            for one in architecture.parameters
            for tensor in stored(one.name, one.shape, one.role, scheme, "bf16", transposed=one.transposed)
        }
    except InputError:  # a shape that the method cannot pack: what the files hold is all there is to say
        return False
    return bool(written - UNQUANTISED) and not (written - UNQUANTISED) & held


def _is_packed(tensors: Sequence[Tensor]) -> bool:
    """Are weights among the tensors that no plain number format holds? Masks and positions of old files are none."""
    packed = sum(one.bytes for one in tensors if one.dtype not in PLAIN and not one.name.endswith(CONSTANT_SUFFIXES))
    return packed * LEAST_PACKED > sum(one.bytes for one in tensors)
