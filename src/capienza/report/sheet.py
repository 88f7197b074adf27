"""The one-page sizing sheet: what was asked, memory per GPU, conditions, and what would invalidate it."""

from __future__ import annotations

from capienza.i18n.translator import Say
from capienza.predict.answer import Sizing
from capienza.report.blocks import Block, Document, Heading, Items, Table
from capienza.report.labels import TASK_LABELS, label
from capienza.report.server import server_blocks
from capienza.report.size import (
    envelopes_table,
    fit_blocks,
    host_tables,
    ledger_table,
    missing_blocks,
    notes_blocks,
    peaks_table,
)


def sheet_document(sizing: Sizing, say: Say) -> Document:
    """The sheet that is printed or filed beside an order."""
    blocks: list[Block] = [
        Heading(say("Sizing sheet: {name}", name=sizing.card.name), 1),
        Table(columns=(say("what"), say("value")), rows=_facts(sizing, say)),
        ledger_table(sizing, say),
        *host_tables(sizing, say),
        peaks_table(sizing, say),
        envelopes_table(sizing, say),
    ]
    if sizing.answer is not None:
        from capienza.report.engine import engine_blocks

        blocks += engine_blocks(sizing.answer, say)
    if sizing.fit is not None:
        blocks += fit_blocks(sizing.fit, sizing, say)
    blocks += server_blocks(sizing, say)
    blocks += missing_blocks(sizing, say)
    blocks += notes_blocks(sizing, say)
    blocks += [Heading(say("Conditions")), Items(_conditions(sizing, say))]
    blocks += [Heading(say("What would invalidate this sheet")), Items(_invalidators(say))]
    return tuple(blocks)


def _facts(sizing: Sizing, say: Say) -> tuple[tuple[str, str], ...]:
    card, model = sizing.card, sizing.model
    not_stated = say("not stated")
    required = card.tokens.required
    parameters = sizing.num_parameters()
    rows = [
        (say("model"), model.name),
        (say("revision"), model.revision or not_stated),
        (say("parameters"), not_stated if parameters is None else say.number(parameters)),
        (say("task"), say(label(TASK_LABELS, card.task))),
        (say("weight format"), _weight_format(sizing, say)),
        (say("required tokens per sequence"), not_stated if required is None else say.number(required.total)),
    ]
    if card.task == "inference":
        rows.append((say("concurrency"), not_stated if card.concurrency is None else say.number(card.concurrency)))
    else:
        rows.append((say("microbatch"), not_stated if card.microbatch is None else say.number(card.microbatch)))
    engine = card.engine
    rows += [
        (say("engine"), not_stated if engine is None else f"{engine.name} {engine.version or ''}".strip()),
        (say("GPUs per copy"), str(len(sizing.ledger.gpus))),
        (say("card digest (sha256)"), card.sha256 or not_stated),
    ]
    return tuple(rows)


def _weight_format(sizing: Sizing, say: Say) -> str:
    stated = sizing.card.weights.format
    if stated is not None:
        return stated
    if sizing.model.bits is not None:
        return say("{bits} bits per parameter", bits=str(sizing.model.bits))
    return say("as stored ({dtype})", dtype=sizing.model.dtype or say("unknown"))


def _conditions(sizing: Sizing, say: Say) -> tuple[str, ...]:
    card = sizing.card
    conditions = [
        say("Every figure is per GPU; two cards are not one memory space."),
        say("Weights and caches are computed; entries marked unknown are not in any total."),
    ]
    if len(sizing.ledger.gpus) > 1 and sizing.answer is None:
        conditions.append(say("The share of each GPU is an even split: the placement has to be verified."))
    if card.margin is None:
        conditions.append(say("No margin is stated on the card: memory cannot be admissible without one."))
    elif card.margin.reason:
        conditions.append(
            say(
                "Margin {margin_bytes}, because: {reason}",
                margin_bytes=card.margin.amount_bytes,
                reason=card.margin.reason,
            )
        )
    if card.reserve is not None:
        conditions.append(
            say(
                "Reserve {reserve_bytes}, chosen because: {reason}",
                reserve_bytes=card.reserve.amount_bytes,
                reason=card.reserve.reason or say("no reason stated"),
            )
        )
    return tuple(conditions)


def _invalidators(say: Say) -> tuple[str, ...]:
    return (
        say("another model revision, weight format, or cache format"),
        say("longer sequences, more of them at a time, or a larger microbatch than stated above"),
        say("another engine, engine version or engine option"),
        say("another card than the one named, ECC switched, or memory used by other programs"),
        say("a measured peak above the figures here"),
    )
