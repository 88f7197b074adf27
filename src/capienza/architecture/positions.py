"""How far the rotary positions of a model are stretched beyond the length it was trained for.

Legend: limit = max_position_embeddings; original = original_max_position_embeddings, else the limit; reach =
original x factor. `llama3` and `longrope` (older name `su`) state the stretched length as the limit itself; of the
other kinds (yarn, linear, dynamic) some files do and some do not, so a reach above the limit leaves it open.
Source: transformers 5.24, `modeling_rope_utils`; vLLM takes the reach as the model's length in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from capienza.architecture.reading import Config

KEYS = ("rope_parameters", "rope_scaling")
INCLUDED = frozenset({"default", "llama3", "longrope", "mrope", "su"})
"""Kinds whose factor is in max_position_embeddings already, or which have none."""

INCLUDED_IN_GGUF = frozenset({"none", "longrope"})


def stretched_positions(config: Config, limit: int | None) -> int | None:
    """The tokens that `rope_scaling` reaches, where they are more than the limit; else None. Raises `InputError`."""
    reach = max((_reach(part, limit) for part in _parts(config)), default=0) if limit else 0
    return reach if limit is not None and reach > limit else None


def _parts(config: Config) -> Iterator[Config]:
    """What the file states of rotary positions: for the whole model, or for each kind of layer."""
    for key in KEYS:
        part = config.section(key)
        if part is None:
            continue
        kinds = [name for name, value in part.mapping.items() if isinstance(value, dict)]
        if kinds:
            yield from (inner for name in kinds if (inner := part.section(name)))
        else:
            yield part


def _reach(part: Config, limit: int | None) -> int:
    kind = part.text("rope_type", part.text("type", "default"))
    if kind in INCLUDED:
        return 0
    original = part.optional("original_max_position_embeddings") or limit or 0
    return int(original * Decimal(str(part.number("factor", 1))))


def stretched_context(config: Config, limit: int | None) -> int | None:
    """The same from the keys of a GGUF file, where a factor of 0 is one that is not stated."""
    start = "rope.scaling."
    kind = config.text(f"{start}type", "none")
    factor = config.number(f"{start}factor", 1) if config.raw(f"{start}factor") else 1
    original = config.optional(f"{start}original_context_length", minimum=0) or limit
    if limit is None or original is None or kind in INCLUDED_IN_GGUF:
        return None
    reach = int(original * Decimal(str(factor)))
    return reach if reach > limit else None
