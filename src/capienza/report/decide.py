"""The answer of `decide` as a document: verdicts, shortlist, why offers are out, and what would settle the rest."""

from __future__ import annotations

import datetime
from collections.abc import Mapping

from capienza.catalog.offer import Offer
from capienza.decide.dossier import KEPT_ROWS, kept_excluded, kept_ranked
from capienza.decide.gather import GpuCount
from capienza.decide.ranking import CurrencyList, Place
from capienza.decide.run import Decided
from capienza.decide.summary import Summary
from capienza.decide.verdict import CriterionVerdict, Decision, EvidenceRef
from capienza.evidence.record import Record
from capienza.i18n.translator import Say, mark
from capienza.report.bill import bill_table
from capienza.report.blocks import Block, Cell, Document, Heading, Items, Lines, Paragraph, Part, State, Table, cited
from capienza.report.evidence import claims_table
from capienza.report.labels import fit_label
from capienza.report.messages import sentence
from capienza.report.offers import findings_blocks
from capienza.report.ranking import place_cell, ranking_blocks
from capienza.report.sources import NOTHING_CITED, Sources

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
    say = say.in_zone(decided.card.zone or datetime.UTC)
    return (
        Heading(say("Decision: {name}", name=decided.card.name), 1),
        Paragraph(counts_text(summary, say)),
        *verdict_blocks(summary, gpus, NOTHING_CITED, say),
        *shortlist_blocks(summary, NOTHING_CITED, say),
        *ranking_blocks(decided.card, summary, say),
        *notes_blocks(decided, summary, say),
        *excluded_blocks(summary, NOTHING_CITED, say),
        *steps_blocks(summary, NOTHING_CITED, say),
        *findings_blocks(decided.findings, say),
    )


def shown_offers(summary: Summary) -> tuple[str, ...]:
    """The offers of the verdict table: selected, then to confirm in their order, then excluded."""
    return (*kept_ranked(summary), *kept_excluded(summary))[:KEPT_ROWS]


def counts_text(summary: Summary, say: Say) -> str:
    """How many offers there are in each state."""
    return say(
        "Offers: {count}. Selected: {admissible}, to confirm: {to_confirm}, excluded: {exclude}.",
        count=say.number(sum(summary.counts.values())),
        **{state: say.number(number) for state, number in summary.counts.items()},
    )


def notes_blocks(decided: Decided, summary: Summary, say: Say) -> list[Block]:
    """What must be known beside the shortlist, and about the records."""
    notes = (*decided.card_findings, *summary.shortlist.notes, *decided.record_findings)
    return [Items(tuple(sentence(note, say) for note in notes))] if notes else []


def verdict_blocks(summary: Summary, gpus: Mapping[str, GpuCount], sources: Sources, say: Say) -> list[Block]:
    """One row for each offer, one column for each criterion."""
    shown = shown_offers(summary)
    rows = tuple(_verdict_row(summary.by_offer[name], gpus[name], sources, say) for name in shown)
    # A terminal is too narrow for the names: they stand below the table there.
    is_narrow = sources is NOTHING_CITED
    numbered = enumerate(CRITERION_LABELS.values(), 1)
    names = (str(number) if is_narrow else say(text) for number, text in numbered)
    columns = (say("offer"), "GPU", say("verdict"), *names, say("prediction"))
    whole = (0, *range(2, len(columns) if is_narrow else len(columns) - 1))
    table = Table(columns=columns, rows=rows, whole=whole)
    heading = Heading(say("Verdicts"), anchor="verdicts")
    left_out = left_out_blocks(len(summary.by_offer) - len(shown), say)
    return [heading, table, *left_out, *_legend(say, is_narrow=is_narrow)]


def _legend(say: Say, *, is_narrow: bool) -> list[Block]:
    numbered = ", ".join(f"{number} {say(text)}" for number, text in enumerate(CRITERION_LABELS.values(), 1))
    criteria = say("Criteria: {criteria}.", criteria=numbered) + " " if is_narrow else ""
    marks: list[Part] = []
    for state, text in STATE_LABELS.items():
        marks += [State(state, MARKS[state], say(text)), f" {say(text)}", ", "]
    return [
        Paragraph((criteria, say("Marks:"), " ", *marks[:-1], ".")),
        Paragraph(
            say(
                "A prediction stands beside a verdict and never makes one. Incomplete: it could not say overflow, and "
                "cannot say fit while entries are unknown."
            )
        ),
    ]


def _verdict_row(decision: Decision, gpu: GpuCount, sources: Sources, say: Say) -> tuple[Cell, ...]:
    states = {row.criterion: _mark(row, say) for row in decision.criteria}
    return (
        sources.offer(decision.offer),
        f"{gpu.claim.name_raw} x {gpu.gpus}",
        (State(decision.state, say(STATE_LABELS[decision.state])),),
        *(states.get(criterion, "") for criterion in CRITERION_LABELS),
        cited(_prediction(decision, say), sources.prediction(decision.offer)),
    )


def _prediction(decision: Decision, say: Say) -> str:
    if decision.prediction is None:
        return say("none")
    return say(fit_label(decision.prediction.fit, decision.prediction.peak))


def _mark(row: CriterionVerdict, say: Say) -> Cell:
    word = state_text(row, say)
    if row.waiver:
        return (State("waived", say("waived"), word),)
    return (State(row.state, MARKS[row.state], word),)


def state_text(row: CriterionVerdict, say: Say) -> str:
    """The verdict on a criterion in words; a waived one is called so."""
    state = say(STATE_LABELS[row.state])
    return f"{state} ({say('waived')})" if row.waiver else state


def shortlist_blocks(summary: Summary, sources: Sources, say: Say) -> list[Block]:
    """The ranked offers, one list for each currency, as far as they are shown."""
    kept = frozenset(kept_ranked(summary))
    blocks: list[Block] = []
    for one in summary.shortlist.lists:
        blocks += _list(one, kept, summary.by_offer, sources, say)
    hidden = sum(
        not kept.intersection(place.offer for place in places)
        for one in summary.shortlist.lists
        for places in (one.selected, one.to_confirm)
        if places
    )
    if hidden:
        blocks.append(Paragraph(say("Lists in other currencies, not shown here: {count}.", count=say.number(hidden))))
    return blocks


def _list(
    one: CurrencyList, kept: frozenset[str], by_offer: Mapping[str, Decision], sources: Sources, say: Say
) -> list[Block]:
    currency = one.currency or say("no price known")
    headings = (say("Selected ({currency})", currency=currency), say("To confirm ({currency})", currency=currency))
    blocks: list[Block] = []
    for heading, places in zip(headings, (one.selected, one.to_confirm), strict=True):
        if any(place.offer in kept for place in places):
            blocks += [Heading(heading), *_places(places, kept, by_offer, sources, say)]
    return blocks


def _places(
    places: tuple[Place, ...], kept: frozenset[str], by_offer: Mapping[str, Decision], sources: Sources, say: Say
) -> list[Block]:
    rows = tuple(_place_row(place, by_offer[place.offer], sources, say) for place in places if place.offer in kept)
    columns = (say("place"), say("offer"), say("prediction"), say("cost"), say("useful margin"), say("finish"))
    return [
        Table(columns=columns, rows=rows, numeric=(0, 3, 4), whole=(1, 2, 3)),
        *left_out_blocks(len(places) - len(rows), say),
    ]


def _place_row(place: Place, decision: Decision, sources: Sources, say: Say) -> tuple[Cell, ...]:
    margin = say("unknown") if place.margin_bytes is None else say.size(place.margin_bytes)
    finish = say("unknown") if place.finish is None else say.moment(place.finish)
    if place.is_late:
        finish = say("too late as planned") if place.finish is None else say("{moment}: too late", moment=finish)
    return (
        place_cell(place),
        sources.offer(place.offer),
        cited(_prediction(decision, say), sources.prediction(place.offer)),
        cited(cost_text(place, say), sources.bill(decision)),
        cited(margin, () if place.margin_bytes is None else sources.margin(decision)),
        cited(finish, () if place.finish is None else sources.finish(decision)),
    )


def cost_text(place: Place, say: Say) -> str:
    """The planned cost; "about" where it rests on what is not documented."""
    if place.cost is None:
        return say("unknown")
    cost = say.money(place.cost)
    cost = cost if place.cost_is_exact else say("about {cost}", cost=cost)
    if place.original is None:
        return cost
    records = ", ".join(identity[:12] for identity in place.rates)
    return say("{cost} ({original} at the rate of {records})", cost=cost, original=place.original, records=records)


def excluded_blocks(summary: Summary, sources: Sources, say: Say) -> list[Block]:
    """Why offers are out, criterion by criterion."""
    shown = kept_excluded(summary)
    if not shown:
        return []
    rows = tuple(
        (name, say(CRITERION_LABELS[row.criterion]), reasons_cell(row, sources, say))
        for name in shown
        for row in summary.by_offer[name].criteria
        if row.state == "exclude"
    )
    columns = (say("offer"), say("criterion"), say("why it is excluded"))
    table = Table(columns=columns, rows=rows, whole=(0,))
    hidden = len(summary.excluded) - len(shown)
    return [Heading(say("Excluded"), anchor="excluded"), table, *left_out_blocks(hidden, say)]


def reasons_cell(row: CriterionVerdict, sources: Sources, say: Say) -> Cell:
    """The reasons of a verdict, each with the evidence it speaks of."""
    return Lines(tuple(cited(say.message(reason), sources.of_message(reason, row.evidence)) for reason in row.reasons))


def steps_blocks(summary: Summary, sources: Sources, say: Say) -> list[Block]:
    """What would settle the rest, the most awaited first."""
    if not summary.steps:
        return []
    rows = tuple(
        (
            ", ".join(say(CRITERION_LABELS[criterion]) for criterion in step.criteria),
            cited(say.message(step.message), sources.of_message(step.message, ())),
            say.hint(step.message),
            say.number(step.offers),
        )
        for step in summary.steps[:KEPT_ROWS]
    )
    columns = (say("criteria"), say("missing"), say("what settles it"), say("offers"))
    return [
        Heading(say("What would settle the rest"), anchor="settle"),
        Table(columns=columns, rows=rows, numeric=(3,)),
        *left_out_blocks(len(summary.steps) - len(rows), say),
    ]


def left_out_blocks(count: int, say: Say) -> list[Block]:
    """How much a table leaves out."""
    if count <= 0:
        return []
    return [Paragraph(say("Not shown here: {count} more; --json has all of them.", count=say.number(count)))]


def why_document(
    decision: Decision, offer: Offer, row: CriterionVerdict, records: Mapping[str, Record], say: Say
) -> Document:
    """One cell of the verdict table: reasons, evidence, and what would settle it.

    `records` are those of the folder that it cites, by id: what they state is shown below each.
    """
    title = f"{decision.offer}: {say(CRITERION_LABELS[row.criterion])}: {state_text(row, say)}"
    blocks: list[Block] = [Heading(title, 1), Paragraph(f"{offer.gpu.name_raw} x {offer.gpus}, {offer.provider}")]
    if row.reasons:
        blocks += [Heading(say("Reasons")), Items(tuple(sentence(reason, say) for reason in row.reasons))]
    if row.criterion == "budget" and decision.cost.components:
        blocks += [Heading(say("Bill")), bill_table(decision.cost, say, decision.converted)]
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
        (say("date"), unknown if reference.date is None else say.moment(reference.date)),
        (say("expires"), unknown if reference.expires is None else say.moment(reference.expires)),
    )
    return Table(columns=("id", reference.id), rows=rows, whole=(0,))
