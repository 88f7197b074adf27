"""The limits of a workload on a GPU, as a document and as JSON (`capienza.limits/1`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from capienza.decide.limits import Limit
from capienza.i18n.translator import Say, mark
from capienza.report.blocks import Block, Document, Heading, Items, Paragraph, Table
from capienza.report.labels import ENTRY_LABELS, label
from capienza.report.messages import message_data, sentence
from capienza.report.size_data import capacity_data
from capienza.report.tool import TOOL

if TYPE_CHECKING:
    from capienza.api.limiting import Limits

LIMITS_SCHEMA = "capienza.limits/1"
OTHER_BINDS = {
    "model": mark("the longest sequence that the model is made for"),
    "engine": mark("engine.options.max_model_len of the card"),
    "sequences": mark("engine.options.max_num_seqs of the card, or the engine's default"),
    "options": mark("what the card's engine options, or the engine itself, refuse"),
    "pool": mark("the pool that the engine offers"),
    "capacity": mark("the capacity of this card is not known"),
    "nothing": mark("nothing found"),
}


def limits_data(limits: Limits) -> dict[str, Any]:
    """Both limits; null is unknown, 0 is "not even one"."""
    return {
        "schema": LIMITS_SCHEMA,
        "tool": TOOL,
        "card": limits.card.name,
        "gpu": limits.gpu,
        "gpus": limits.gpus,
        "capacity": capacity_data(limits.capacity),
        "max_position_embeddings": limits.max_positions,
        "length": _limit_data(limits.length),
        "concurrency": _limit_data(limits.concurrency),
        "notes": [message_data(note) for note in limits.notes],
    }


def _limit_data(found: Limit) -> dict[str, Any]:
    return {name: getattr(found, name) for name in found.__struct_fields__}


def limits_document(limits: Limits, say: Say) -> Document:
    """One row for each limit, then what is missing from them."""
    length, concurrency = limits.length, limits.concurrency
    rows = (
        (
            say("longest required length"),
            say("{count} at a time", count=say.number(length.at)),
            _count(length.expected, say),
            _count(length.certain, say),
            _binds(length, say),
        ),
        (
            say("largest concurrency"),
            say("{tokens} tokens per sequence", tokens=say.number(concurrency.at)),
            _count(concurrency.expected, say),
            _count(concurrency.certain, say),
            _binds(concurrency, say),
        ),
    )
    columns = (say("limit"), say("with"), say("expected"), say("predicted fit"), say("what binds"))
    blocks: list[Block] = [
        Heading(f"{limits.card.name}: {limits.gpu} x {limits.gpus}", 1),
        Table(columns=columns, rows=rows, numeric=(2, 3)),
        Paragraph(
            say(
                "Expected: the expected need is within the smallest usable capacity. Predicted fit: the ceiling and "
                "the card's margin are too. The requirement of the card stays as it is."
            )
        ),
    ]
    if length.missing:
        names = tuple(say(label(ENTRY_LABELS, name)) for name in length.missing)
        blocks += [Heading(say("Unknown, and not counted as zero")), Items(names)]
    if limits.notes:
        blocks += [Heading(say("Notes")), Items(tuple(sentence(note, say) for note in limits.notes))]
    return tuple(blocks)


def _count(value: int | None, say: Say) -> str:
    return say("unknown") if value is None else say.number(value)


def _binds(found: Limit, say: Say) -> str:
    return say(OTHER_BINDS[found.binds] if found.binds in OTHER_BINDS else label(ENTRY_LABELS, found.binds))
