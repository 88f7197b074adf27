"""The answers of `decide` for many cards: one row a card, and a JSON document (`capienza.decide-many/1`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from capienza.decide.ranking import Place
from capienza.decide.summary import Brief
from capienza.i18n.translator import Say
from capienza.report.blocks import Block, Document, Heading, Items, Paragraph, Table
from capienza.report.decide import STATE_LABELS, cost_text
from capienza.report.messages import message_data, sentence
from capienza.report.offers import findings_blocks, findings_data
from capienza.report.tool import TOOL

SCHEMA = "capienza.decide-many/1"


def many_document(answers: Sequence[Brief], say: Say) -> Document:
    """How many offers each card selects, and the first of them; where none is selected, the first to confirm."""
    columns = (
        say("card"),
        say("selected"),
        say("to confirm"),
        say("excluded"),
        say("first offer"),
        say("verdict"),
        say("cost"),
        say("useful margin"),
    )
    rows = tuple(_row(answer, say) for answer in answers)
    blocks: list[Block] = [
        Heading(say("Decisions: {count} cards", count=say.number(len(answers))), 1),
        Table(columns=columns, rows=rows, numeric=(1, 2, 3, 6, 7), whole=(0, 4)),
        Paragraph(say("capienza decide CARD shows one of them in full.")),
    ]
    notes = dict.fromkeys(f"{answer.card}: {sentence(note, say)}" for answer in answers for note in answer.notes)
    shown = (*notes, *(sentence(finding, say) for finding in answers[0].record_findings))
    if shown:
        blocks.append(Items(shown))
    return (*blocks, *findings_blocks(answers[0].findings, say))


def many_data(answers: Sequence[Brief]) -> dict[str, Any]:
    """Each card with its counts and the first places of its lists."""
    return {
        "schema": SCHEMA,
        "tool": TOOL,
        "cards": [
            {
                "card": {"name": answer.card, "file": answer.file},
                "counts": answer.counts,
                "lists": answer.lists,
                "notes": [message_data(note) for note in answer.notes],
            }
            for answer in answers
        ],
        "findings": findings_data(answers[0].findings),
        "record_findings": [message_data(finding) for finding in answers[0].record_findings],
    }


def _row(answer: Brief, say: Say) -> tuple[str, ...]:
    counts = (say.number(answer.counts[state]) for state in ("admissible", "to_confirm", "exclude"))
    first = _first(answer)
    if first is None:
        return (answer.card, *counts, say("none"), "", "", "")
    margin = say("unknown") if first.margin_bytes is None else say.size(first.margin_bytes)
    return (answer.card, *counts, first.offer, say(STATE_LABELS[first.state]), cost_text(first, say), margin)


def _first(answer: Brief) -> Place | None:
    for places in (*(one.selected for one in answer.lists), *(one.to_confirm for one in answer.lists)):
        if places:
            return places[0]
    return None
