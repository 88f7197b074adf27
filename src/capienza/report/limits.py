"""The limits of a workload on a GPU, as a document and as JSON (`capienza.limits/1`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

from capienza.decide.limits import Limit
from capienza.i18n.translator import Say, mark
from capienza.predict.training.texts import AT_PART, IN_LAYER
from capienza.report.blocks import Block, Document, Heading, Items, Paragraph, Table
from capienza.report.labels import ENTRY_LABELS, label
from capienza.report.messages import message_data, sentence
from capienza.report.size_data import capacity_data
from capienza.report.tool import TOOL

if TYPE_CHECKING:
    from capienza.api.limiting import Limits

DIMENSIONS = {"tokens": mark("length"), "concurrency": mark("concurrency"), "microbatch": mark("microbatch")}
LIMITS_SCHEMA = "capienza.limits/1"
OTHER_BINDS = {
    "model": mark("the longest sequence that the model is made for"),
    "engine": mark("engine.options.max_model_len of the card"),
    "sequences": mark("engine.options.max_num_seqs of the card, or the engine's default"),
    "options": mark("what the card's engine options, or the engine itself, refuse"),
    "pool": mark("the pool that the engine offers"),
    "capacity": mark("the capacity of this card is not known"),
    "unknown": mark("not known: entries that would grow are unknown"),
    "nothing": mark("nothing found"),
}


def limits_data(limits: Limits) -> dict[str, Any]:
    """All limits; null is unknown, 0 is "not even one"."""
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
        "microbatch": _limit_data(limits.microbatch),
        "same_batch": None if limits.same_batch is None else to_builtins(limits.same_batch),
        "notes": [message_data(note) for note in limits.notes],
    }


def _limit_data(found: Limit | None) -> dict[str, Any] | None:
    return None if found is None else {name: getattr(found, name) for name in found.__struct_fields__}


def limits_document(limits: Limits, say: Say) -> Document:
    """One row for each limit, then what is missing from them."""
    length, other = limits.length, limits.concurrency or limits.microbatch
    assert other is not None
    count, tokens = say.number(length.at), say("{tokens} tokens per sequence", tokens=say.number(other.at))
    if limits.microbatch is None:
        beside, largest = say("{count} at a time", count=count), say("largest concurrency")
    else:
        beside, largest = say("microbatch {count}", count=count), say("largest microbatch")
    rows = (_row(say("longest required length"), beside, length, say), _row(largest, tokens, other, say))
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
    blocks += _nothing_fits(limits, say)
    if limits.microbatch is not None:
        blocks.append(Paragraph(_batch(limits, limits.microbatch, say)))
    if length.missing:
        names = tuple(say(label(ENTRY_LABELS, name)) for name in length.missing)
        blocks += [Heading(say("Unknown, and not counted as zero")), Items(names)]
    if limits.notes:
        blocks += [Heading(say("Notes")), Items(tuple(sentence(note, say) for note in limits.notes))]
    return tuple(blocks)


def _row(name: str, beside: str, found: Limit, say: Say) -> tuple[str, ...]:
    return name, beside, _count(found, found.expected, say), _count(found, found.certain, say), _binds(found, say)


def _count(found: Limit, value: int | None, say: Say) -> str:
    if value is None:
        return say("unknown")
    return say("at most {count}", count=say.number(value)) if found.missing and value else say.number(value)


def _binds(found: Limit, say: Say) -> str:
    if found.binds in OTHER_BINDS:
        return say(OTHER_BINDS[found.binds])
    entry = say(label(ENTRY_LABELS, found.binds))
    if found.phase is None:
        return entry
    if not found.where:
        return say("phase {phase}: {entry}", phase=str(found.phase), entry=entry)
    is_layer = found.where.isdecimal()
    where = IN_LAYER(layer=int(found.where)) if is_layer else AT_PART(part=found.where)
    return say("phase {phase}, {where}: {entry}", phase=str(found.phase), where=sentence(where, say), entry=entry)


def _nothing_fits(limits: Limits, say: Say) -> list[Block]:
    """Why a limit is 0: what 1 already needs beside what the GPU has."""
    usable, margin = limits.capacity.smallest_usable_bytes, limits.card.margin
    if usable is None:
        return []
    found = [
        _why(one, usable, margin.amount_bytes if margin else 0, say)
        for one in (limits.length, limits.concurrency, limits.microbatch)
        if one is not None
    ]
    items = tuple(filter(None, found))
    return [Heading(say("Why a limit is 0")), Items(items)] if items else []


def _why(found: Limit, usable_bytes: int, margin_bytes: int, say: Say) -> str:
    """Empty where the limit is not 0, or something else than memory makes it so."""
    dimension, need = say(DIMENSIONS[found.dimension]), found.least_need_bytes
    if found.expected == 0 and need is not None and need > usable_bytes:
        told = say(
            "{dimension}: 1 already needs {need_bytes} of the usable {usable_bytes}",
            dimension=dimension,
            need_bytes=need,
            usable_bytes=usable_bytes,
        )
        if found.binds_bytes is None:
            return told
        entry = say(label(ENTRY_LABELS, found.binds))
        more = say("most of it: {entry}, {size_bytes}", entry=entry, size_bytes=found.binds_bytes)
        return f"{told}; {more}"
    if found.expected and found.certain == 0 and found.least_ceiling_bytes is not None:
        return say(
            "{dimension}: 1 is expected to fit, and its ceiling {ceiling_bytes} with the margin {margin_bytes} reaches "
            "the end of the usable {usable_bytes}",
            dimension=dimension,
            ceiling_bytes=found.least_ceiling_bytes,
            margin_bytes=margin_bytes,
            usable_bytes=usable_bytes,
        )
    return ""


def _batch(limits: Limits, microbatch: Limit, say: Say) -> str:
    """The accumulation that keeps the card's batch: told, for the card states it."""
    kept, card = limits.same_batch, limits.card
    if kept is not None:
        text = say(
            "With microbatch {microbatch} and accumulation {accumulation} an optimizer step still sees {sequences} "
            "sequences.",
            microbatch=say.number(kept.microbatch),
            accumulation=say.number(kept.accumulation),
            sequences=say.number(kept.sequences),
        )
        return text if kept.is_certain else f"{text} {say('That is expected to fit, and no predicted fit.')}"
    if card.accumulation is None:
        return say("The card states no accumulation, so no batch can be kept: another microbatch is another batch.")
    if not microbatch.expected:
        return say("Not even a microbatch of 1 fits at this length.")
    return say("No microbatch within the limit makes up to the card's batch.")
