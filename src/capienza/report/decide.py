"""The answer of `decide` as a document: verdicts, shortlist, why offers are out, and what would settle the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from capienza.catalog.offer import GpuClaim, Offer
from capienza.decide.ranking import CurrencyList, Place
from capienza.decide.run import Decided
from capienza.decide.summary import Summary
from capienza.decide.verdict import CriterionVerdict, Decision, EvidenceRef
from capienza.evidence.record import Record
from capienza.i18n.translator import Say, mark
from capienza.report.bill import bill_table
from capienza.report.blocks import Block, Document, Heading, Items, Paragraph, Table
from capienza.report.evidence import claims_table
from capienza.report.labels import fit_label
from capienza.report.messages import sentence
from capienza.report.offers import findings_blocks
from capienza.report.ranking import place_cell, ranking_blocks

KEPT_ROWS = 40
"""Rows of one table that a page shows; how many it leaves out is said below it."""


class GpuCount(NamedTuple):
    """What an offer has: a GPU claim, shared by all offers that make it, and how many."""

    claim: GpuClaim
    gpus: int


CRITERION_LABELS = {
    "workload": mark("workload covered"),
    "compatibility": mark("compatibility"),
    "memory": mark("memory per GPU"),
    "quality": mark("quality"),
    "placement": mark("placement and server"),
    "budget": mark("budget and calendar"),
}
STATE_LABELS = {
    "admissible": mark("admissible"),
    "to_confirm": mark("to confirm"),
    "exclude": mark("exclude"),
    "not_applicable": mark("not applicable"),
}
MARKS = {"admissible": "ok", "to_confirm": "?", "exclude": "no", "not_applicable": "-"}


def decide_document(decided: Decided, summary: Summary, gpus: Mapping[str, GpuCount], say: Say) -> Document:
    """The whole answer. `gpus` says of each offer what GPU it has, and how many."""
    blocks: list[Block] = [
        Heading(say("Decision: {name}", name=decided.card.name), 1),
        Paragraph(_counts(summary, say)),
        *_verdicts(summary, gpus, say),
    ]
    for one in summary.shortlist.lists:
        blocks += _list(one, summary.by_offer, say)
    blocks += ranking_blocks(decided.card, summary, say)
    notes = (*decided.card_findings, *summary.shortlist.notes, *decided.record_findings)
    if notes:
        blocks.append(Items(tuple(sentence(note, say) for note in notes)))
    blocks += _excluded(summary, say)
    blocks += _steps(summary, say)
    blocks += findings_blocks(decided.findings, say)
    return tuple(blocks)


def shown_offers(summary: Summary) -> tuple[str, ...]:
    """The offers of the verdict table: selected, then to confirm in their order, then excluded."""
    ranked = [place.offer for one in summary.shortlist.lists for place in (*one.selected, *one.to_confirm)]
    return (*ranked, *(decision.offer for decision in summary.excluded))[:KEPT_ROWS]


def _counts(summary: Summary, say: Say) -> str:
    return say(
        "Offers: {count}. Selected: {admissible}, to confirm: {to_confirm}, excluded: {exclude}.",
        count=say.number(sum(summary.counts.values())),
        **{state: say.number(number) for state, number in summary.counts.items()},
    )


def _verdicts(summary: Summary, gpus: Mapping[str, GpuCount], say: Say) -> list[Block]:
    shown = shown_offers(summary)
    rows = tuple(_verdict_row(summary.by_offer[name], gpus[name], say) for name in shown)
    numbers = tuple(str(number) for number in range(1, len(CRITERION_LABELS) + 1))
    columns = (say("offer"), "GPU", say("verdict"), *numbers, say("prediction"))
    table = Table(columns=columns, rows=rows, whole=(0, *range(2, len(columns))))
    return [Heading(say("Verdicts")), table, *_left_out(len(summary.by_offer) - len(shown), say), *_legend(say)]


def _legend(say: Say) -> list[Block]:
    criteria = ", ".join(f"{number} {say(text)}" for number, text in enumerate(CRITERION_LABELS.values(), 1))
    marks = ", ".join(f"{MARKS[state]} {say(text)}" for state, text in STATE_LABELS.items())
    return [
        Paragraph(say("Criteria: {criteria}. Marks: {marks}.", criteria=criteria, marks=marks)),
        Paragraph(
            say(
                "A prediction stands beside a verdict and never makes one. Incomplete: it could not say overflow, and "
                "cannot say fit while entries are unknown."
            )
        ),
    ]


def _verdict_row(decision: Decision, gpu: GpuCount, say: Say) -> tuple[str, ...]:
    states = {row.criterion: _mark(row, say) for row in decision.criteria}
    return (
        decision.offer,
        f"{gpu.claim.name_raw} x {gpu.gpus}",
        say(STATE_LABELS[decision.state]),
        *(states.get(criterion, "") for criterion in CRITERION_LABELS),
        _prediction(decision, say),
    )


def _prediction(decision: Decision, say: Say) -> str:
    if decision.prediction is None:
        return say("none")
    return say(fit_label(decision.prediction.fit, decision.prediction.peak))


def _mark(row: CriterionVerdict, say: Say) -> str:
    return say("waived") if row.waiver else MARKS[row.state]


def _state_cell(row: CriterionVerdict, say: Say) -> str:
    state = say(STATE_LABELS[row.state])
    return f"{state} ({say('waived')})" if row.waiver else state


def _list(one: CurrencyList, by_offer: Mapping[str, Decision], say: Say) -> list[Block]:
    currency = one.currency or say("no price known")
    blocks: list[Block] = []
    if one.selected:
        heading = Heading(say("Selected ({currency})", currency=currency))
        blocks += [heading, *_places(one.selected, by_offer, say)]
    if one.to_confirm:
        heading = Heading(say("To confirm ({currency})", currency=currency))
        blocks += [heading, *_places(one.to_confirm, by_offer, say)]
    return blocks


def _places(places: tuple[Place, ...], by_offer: Mapping[str, Decision], say: Say) -> list[Block]:
    rows = tuple(_place_row(place, by_offer[place.offer], say) for place in places[:KEPT_ROWS])
    columns = (say("place"), say("offer"), say("prediction"), say("cost"), say("useful margin"), say("finish"))
    return [
        Table(columns=columns, rows=rows, numeric=(0, 3, 4), whole=(1, 2, 3)),
        *_left_out(len(places) - len(rows), say),
    ]


def _place_row(place: Place, decision: Decision, say: Say) -> tuple[str, ...]:
    cost = say("unknown") if place.cost is None else say.money(place.cost)
    if place.cost is not None and not place.cost_is_exact:
        cost = say("about {cost}", cost=cost)
    return (
        place_cell(place),
        place.offer,
        _prediction(decision, say),
        cost,
        say("unknown") if place.margin_bytes is None else say.size(place.margin_bytes),
        say("unknown") if place.finish is None else place.finish.isoformat(timespec="minutes"),
    )


def _excluded(summary: Summary, say: Say) -> list[Block]:
    if not summary.excluded:
        return []
    rows = tuple(
        (decision.offer, say(CRITERION_LABELS[row.criterion]), "; ".join(say.message(reason) for reason in row.reasons))
        for decision in summary.excluded[:KEPT_ROWS]
        for row in decision.criteria
        if row.state == "exclude"
    )
    columns = (say("offer"), say("criterion"), say("why it is excluded"))
    left_out = len(summary.excluded) - len(summary.excluded[:KEPT_ROWS])
    return [Heading(say("Excluded")), Table(columns=columns, rows=rows, whole=(0,)), *_left_out(left_out, say)]


def _steps(summary: Summary, say: Say) -> list[Block]:
    if not summary.steps:
        return []
    rows = tuple(
        (
            ", ".join(say(CRITERION_LABELS[criterion]) for criterion in step.criteria),
            say.message(step.message),
            say.hint(step.message),
            say.number(step.offers),
        )
        for step in summary.steps[:KEPT_ROWS]
    )
    columns = (say("criteria"), say("missing"), say("what settles it"), say("offers"))
    return [
        Heading(say("What would settle the rest")),
        Table(columns=columns, rows=rows, numeric=(3,)),
        *_left_out(len(summary.steps) - len(rows), say),
    ]


def _left_out(count: int, say: Say) -> list[Block]:
    if count <= 0:
        return []
    return [Paragraph(say("Not shown here: {count} more; --json has all of them.", count=say.number(count)))]


def why_document(
    decision: Decision, offer: Offer, row: CriterionVerdict, records: Mapping[str, Record], say: Say
) -> Document:
    """One cell of the verdict table: reasons, evidence, and what would settle it.

    `records` are those of the folder that it cites, by id: what they state is shown below each.
    """
    title = f"{decision.offer}: {say(CRITERION_LABELS[row.criterion])}: {_state_cell(row, say)}"
    blocks: list[Block] = [Heading(title, 1), Paragraph(f"{offer.gpu.name_raw} x {offer.gpus}, {offer.provider}")]
    if row.reasons:
        blocks += [Heading(say("Reasons")), Items(tuple(sentence(reason, say) for reason in row.reasons))]
    if row.criterion == "budget" and decision.cost.components:
        blocks += [Heading(say("Bill")), bill_table(decision.cost, say)]
    if row.evidence:
        blocks.append(Heading(say("Evidence")))
        for reference in row.evidence:
            blocks.append(_evidence(reference, say))
            if reference.id in records:
                blocks.append(claims_table(records[reference.id], say))
    if row.settle:
        blocks += [Heading(say("What would settle it")), Items(tuple(sentence(step, say) for step in row.settle))]
    return tuple(blocks)


def _evidence(reference: EvidenceRef, say: Say) -> Table:
    """One citation in full, so that it can be followed."""
    unknown = say("not stated")
    rows = (
        (say("version"), reference.version or unknown),
        (say("scope"), reference.scope or unknown),
        ("sha256", reference.sha256 or unknown),
        (say("date"), unknown if reference.date is None else reference.date.isoformat()),
        (say("expires"), unknown if reference.expires is None else reference.expires.isoformat()),
    )
    return Table(columns=("id", reference.id), rows=rows, whole=(0,))
