"""Does a record speak of what is needed? Field by field, with the reason when it does not (DESIGN rule 10).

A text must be equal; a range of drivers must hold the needed one. A workload bound is monotone: a success at larger
dimensions covers a smaller need, a failure at smaller dimensions establishes the larger one. What the record leaves
out covers nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from capienza.errors import Message, template
from capienza.evidence.claims import ANY
from capienza.evidence.drivers import within
from capienza.evidence.record import Record, Scope

BOUNDS = ("tokens", "concurrency", "microbatch")
FIELDS = Scope.__struct_fields__
EXACT_TEXTS = frozenset({"model", "revision", "configuration"})
"""Compared letter by letter; the other texts ignore case (vLLM, vllm)."""

Speaks = Literal["success", "failure"]

SCOPE_UNSTATED = template(
    "evidence.scope-unstated",
    "record {record} does not state {field}; needed: {needed}",
    "add a record whose scope states {field}",
)
SCOPE_DIFFERS = template(
    "evidence.scope-differs",
    "record {record} speaks of {field} {stated}; needed: {needed}",
    "add a record about {field} {needed}",
)
SCOPE_SMALLER = template(
    "evidence.scope-smaller",
    "record {record} was made with {field} {stated}; needed: at least {needed}",
    "repeat the run with {field} {needed}",
)
SCOPE_LARGER = template(
    "evidence.scope-larger",
    "record {record} is a failure with {field} {stated}, more than the {needed} that are needed",
    "repeat the run with {field} {needed}",
)


def gaps(
    record: Record,
    need: Scope,
    fields: Iterable[str] = FIELDS,
    speaks: Speaks = "success",
) -> tuple[Message, ...]:
    """Why the record does not cover the need in these fields; empty when it does.

    A field that the need leaves None is not asked for. `speaks` says which way the workload bounds are
    monotone. The word `any` counts in documents only: a measurement was made on one thing.
    """
    return tuple(_gaps(record, need, fields, speaks))


def first_gap(record: Record, need: Scope, fields: Iterable[str], speaks: Speaks = "success") -> Message | None:
    """The first of `gaps`; None when the record covers the need."""
    return next(_gaps(record, need, fields, speaks), None)


def contradicts(stated: Scope, need: Scope, fields: Iterable[str]) -> bool:
    """Do both state one of these text fields or counts, and differently?"""
    pairs = ((field, getattr(stated, field), getattr(need, field)) for field in fields)
    return any(
        None not in (said, needed) and said not in (needed, ANY) and not _same_in_effect(field, said, needed)
        for field, said, needed in pairs
    )


def scope_text(scope: Scope) -> str:
    """The stated fields in one line: "model=..., gpu=..."."""
    stated = ((field, getattr(scope, field)) for field in FIELDS)
    return ", ".join(f"{field}={value}" for field, value in stated if value is not None)


def _gaps(record: Record, need: Scope, fields: Iterable[str], speaks: Speaks) -> Iterator[Message]:
    for field in fields:
        needed, stated = getattr(need, field), getattr(record.scope, field)
        if needed is None or stated == needed:
            continue
        if stated is None:
            yield SCOPE_UNSTATED(record=record.id[:12], field=field, needed=needed)
        elif field in BOUNDS:
            if speaks == "success" and stated < needed:
                yield SCOPE_SMALLER(record=record.id[:12], field=field, stated=stated, needed=needed)
            elif speaks == "failure" and stated > needed:
                yield SCOPE_LARGER(record=record.id[:12], field=field, stated=stated, needed=needed)
        elif not _same_in_effect(field, stated, needed) and not (stated == ANY and record.kind == "document"):
            yield SCOPE_DIFFERS(record=record.id[:12], field=field, stated=stated, needed=needed)


def _same_in_effect(field: str, stated: str | int, needed: str | int) -> bool:
    """Texts that differ by case alone, where case means nothing; a driver within the stated range.

    A folder that is named OWNER--NAME after its repository is called by the repository's own name as well.
    """
    if field == "driver":
        return within(str(needed), str(stated))
    if field == "model":
        return str(stated).replace("--", "/") == str(needed).replace("--", "/")
    if isinstance(stated, str) and isinstance(needed, str) and field not in EXACT_TEXTS:
        return stated.casefold() == needed.casefold()
    return False
