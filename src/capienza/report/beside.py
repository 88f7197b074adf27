"""A training's closed form beside its trace, in the answer of `trace CARD`: as blocks and as JSON."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from capienza.i18n.translator import Say, mark
from capienza.predict.training.beside import MOST_APART, OTHER, Beside, Comparison
from capienza.report.blocks import Block, Heading, Items, Paragraph, Table
from capienza.report.labels import ENTRY_LABELS, label
from capienza.report.messages import message_data, sentence
from capienza.units import MIB

OTHERS = mark("other entries")


def beside_data(found: Comparison) -> dict[str, Any]:
    """Bytes; a difference is a share of the traced figure; null is unknown, or not in the closed form."""
    return {
        "most_apart": MOST_APART,
        "phases": [_phase_data(one) for one in found.phases],
        "causes": [message_data(one) for one in found.causes],
    }


def _phase_data(one: Beside) -> dict[str, Any]:
    return {
        "phase": one.phase,
        "computed": {
            "allocated_bytes": one.computed_allocated_bytes,
            "reserved_bytes": one.computed_reserved_bytes,
        },
        "traced": {"allocated_bytes": one.traced_allocated_bytes, "reserved_bytes": one.traced_reserved_bytes},
        "difference": {"allocated": one.allocated, "reserved": one.reserved},
        "is_apart": one.is_apart,
        "entries": [
            {"name": entry.name, "computed_bytes": entry.computed_bytes, "traced_bytes": entry.traced_bytes}
            for entry in one.entries
        ],
        "named": [entry.name for entry in one.named],
    }


def beside_blocks(found: Comparison, say: Say) -> list[Block]:
    """The table, then what differs by more than the bar and why."""
    columns = (
        say("phase, MiB"),
        say("allocated, computed"),
        say("traced"),
        say("difference"),
        say("reserved, computed"),
        say("traced"),
        say("difference"),
    )
    heading = Heading(say("The closed form beside the trace"))
    if not found.phases:
        return [heading, *_causes(found, say)]
    blocks: list[Block] = [
        heading,
        Table(columns=columns, rows=tuple(_row(one, say) for one in found.phases), numeric=tuple(range(1, 7))),
    ]
    apart = [_remark(one, say) for one in found.phases if one.is_apart]
    bar = say.number(Decimal(str(MOST_APART * 100)), 0)
    if not apart:
        text = say("Wherever both have a figure they differ by {most} % at most.", most=bar)
        return [*blocks, Paragraph(text), *_causes(found, say)]
    told = Paragraph(say("They differ by more than {most} %:", most=bar))
    return [*blocks, told, Items(tuple(apart)), *_causes(found, say)]


def _causes(found: Comparison, say: Say) -> list[Block]:
    if not found.causes:
        return []
    return [Paragraph(say("Known reasons:")), Items(tuple(sentence(one, say) for one in found.causes))]


def _row(one: Beside, say: Say) -> tuple[str, ...]:
    return (
        one.phase,
        *_cells(one.computed_allocated_bytes, one.traced_allocated_bytes, one.allocated, say),
        *_cells(one.computed_reserved_bytes, one.traced_reserved_bytes, one.reserved, say),
    )


def _cells(computed: int | None, traced: int, difference: float | None, say: Say) -> tuple[str, str, str]:
    return ("-" if computed is None else _mib(computed, say), _mib(traced, say), _percent(difference, say))


def _remark(one: Beside, say: Say) -> str:
    """One phase: how much, and which entries, or that only what the allocator keeps differs."""
    if not one.named:
        return say(
            "{phase}: allocated agrees; of the reserved, {computed} MiB are computed and {traced} MiB traced: "
            "the allocator keeps other blocks",
            phase=one.phase,
            computed=_mib(one.computed_reserved_bytes or 0, say),
            traced=_mib(one.traced_reserved_bytes, say),
        )
    named = "; ".join(
        say(
            "{entry}: {traced} MiB traced, {computed} MiB computed",
            entry=say(OTHERS) if entry.name == OTHER else say(label(ENTRY_LABELS, entry.name)),
            traced=_mib(entry.traced_bytes, say),
            computed=_mib(entry.computed_bytes, say),
        )
        for entry in one.named
    )
    return say(
        "{phase}: computed against traced {difference}; {named}",
        phase=one.phase,
        difference=_percent(one.allocated, say),
        named=named,
    )


def _percent(share: float | None, say: Say) -> str:
    if share is None:
        return "-"
    # Adding 0 makes the zero of a small negative share a plain one.
    value = Decimal(str(round(share * 100, 2) + 0))
    return f"{'+' if value > 0 else ''}{say.number(value, 2)} %"


def _mib(size_bytes: int, say: Say) -> str:
    return say.number(Decimal(size_bytes) / MIB, 1)
