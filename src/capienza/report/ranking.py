"""How the offers were ordered, which of them nothing beats, and what to do first for each that is to confirm."""

from __future__ import annotations

from typing import Any

from capienza.card.model import Card, Figure, RankBy, Within
from capienza.decide.effort import Effort
from capienza.decide.ranking import CurrencyList, Place
from capienza.decide.steps import Step
from capienza.decide.summary import Summary
from capienza.i18n.translator import Say, mark
from capienza.report.blocks import Block, Heading, Items, Paragraph, Table
from capienza.report.messages import message_data

SHOWN = 40
"""Rows of one table; how many are left out is said below it."""
SHOWN_NAMES = 12
FIGURE_LABELS: dict[Figure, str] = {
    "cost": mark("total package cost"),
    "margin": mark("useful margin"),
    "finish": mark("documented end"),
    "preferences": mark("preferences"),
}
EFFORT_LABELS = {
    Effort.CARD: mark("a line in the card"),
    Effort.DOCUMENT: mark("a document, or a question to the seller"),
    Effort.SHORT_RUN: mark("a short run"),
    Effort.FULL_RUN: mark("a full run"),
    Effort.OTHER_OFFER: mark("none: look for another offer"),
}


def place_cell(place: Place) -> str:
    """The place; a tie is marked."""
    return f"{place.place} =" if place.is_tied else str(place.place)


def ranking_blocks(card: Card, summary: Summary, say: Say) -> list[Block]:
    """The order and its thresholds, the Pareto set of each list, and the next step of those to confirm."""
    blocks: list[Block] = []
    if summary.counts["admissible"]:
        items = [_order(card.ranking, say), *(_best(one, say) for one in summary.shortlist.lists if one.selected)]
        blocks += [Heading(say("How the selected are ordered")), Items(tuple(items))]
    return blocks + _next_blocks(summary, say)


def step_data(step: Step) -> dict[str, Any]:
    """One step in a JSON document."""
    return {
        "criteria": list(step.criteria),
        "offers": step.offers,
        "effort": step.effort.word,
        **message_data(step.message),
    }


def ranking_data(card: Card) -> list[dict[str, Any]]:
    """The order in a JSON document."""
    return [
        {"by": rank.by, "within": None if rank.within is None else f"{rank.within.amount:f} {rank.within.unit}"}
        for rank in card.ranking
    ]


def _order(order: tuple[RankBy, ...], say: Say) -> str:
    figures = ", ".join(_figure(rank, say) for rank in order)
    if any(rank.within for rank in order):
        return say(
            "Order: {figures}. Within a threshold of the best of those that remain, figures count as equal and the "
            "next one decides. Equal in all: one place, marked =.",
            figures=figures,
        )
    return say("Order: {figures}. Equal in all: one place, marked =.", figures=figures)


def _figure(rank: RankBy, say: Say) -> str:
    name = say(FIGURE_LABELS[rank.by])
    return (
        name if rank.within is None else say("{figure} within {within}", figure=name, within=_within(rank.within, say))
    )


def _within(within: Within, say: Say) -> str:
    if within.unit == "B":
        return say.size(int(within.amount))
    amount = say.number(within.amount, max(-int(within.amount.normalize().as_tuple().exponent), 0))
    return f"{amount} {within.unit}"


def _best(one: CurrencyList, say: Say) -> str:
    names = [place.offer for place in one.selected if place.is_undominated]
    if not names:
        return say(
            "Pareto set ({currency}): no offer has all its figures.", currency=one.currency or say("no price known")
        )
    return say(
        "Pareto set ({currency}), no other offer is as good in cost, margin and end and better in one: {offers}",
        currency=one.currency or say("no price known"),
        offers=_names(names, say),
    )


def _next_blocks(summary: Summary, say: Say) -> list[Block]:
    """One row for each action that comes first somewhere, in the order in which the lists meet it."""
    first: dict[int, list[str]] = {}
    for one in summary.shortlist.lists:
        for place in one.to_confirm:
            if place.next is not None:
                first.setdefault(place.next.step, []).append(place.offer)
    if not first:
        return []
    rows = tuple(
        (
            say.message(step.message),
            say.hint(step.message),
            say(EFFORT_LABELS[step.effort]),
            say.number(step.offers),
            _names(offers, say),
        )
        for index, offers in list(first.items())[:SHOWN]
        for step in (summary.steps[index],)
    )
    columns = (say("first to do"), say("what settles it"), say("work"), say("offers it serves"), say("first for"))
    blocks: list[Block] = [Heading(say("What to do first")), Table(columns=columns, rows=rows, numeric=(3,))]
    if len(first) > len(rows):
        count = say.number(len(first) - len(rows))
        blocks.append(Paragraph(say("Not shown here: {count} more; --json has all of them.", count=count)))
    return blocks


def _names(offers: list[str], say: Say) -> str:
    shown = ", ".join(offers[:SHOWN_NAMES])
    more = len(offers) - SHOWN_NAMES
    return shown if more <= 0 else say("{offers} and {count} more", offers=shown, count=say.number(more))
