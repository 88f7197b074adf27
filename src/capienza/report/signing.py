"""A decision as a document that a person can sign: the answer, each offer in full, what it rests on, what ends it.

Terminal, Markdown and HTML show the same blocks. Behind every figure stands the mark of where it comes from.
"""

from __future__ import annotations

from capienza import __version__
from capienza.card.model import NONE, Budget, Calendar, Card, Host, Placement
from capienza.card.quality_model import Quality
from capienza.decide.dossier import Dossier
from capienza.decide.invalidate import Invalidator
from capienza.i18n.translator import Say
from capienza.report.appendix import calculation_blocks, evidence_blocks
from capienza.report.blocks import (
    Block,
    Cell,
    CostChart,
    Document,
    Heading,
    Items,
    Link,
    Paragraph,
    Point,
    SignatureLines,
    State,
    Table,
    Text,
    cited,
)
from capienza.report.decide import (
    STATE_LABELS,
    counts_text,
    excluded_blocks,
    notes_blocks,
    shortlist_blocks,
    steps_blocks,
    verdict_blocks,
)
from capienza.report.labels import TASK_LABELS, label
from capienza.report.offer_detail import offer_blocks
from capienza.report.offers import findings_blocks
from capienza.report.ranking import ranking_blocks
from capienza.report.sources import CARD, OFFERS, RECORDS, RULES, Sources, sources_of


def signing_document(dossier: Dossier, say: Say) -> Document:
    """The whole document."""
    decided, summary = dossier.decided, dossier.summary
    sources = sources_of(dossier)
    return (
        Heading(say("Decision: {name}", name=decided.card.name), 1),
        Paragraph(cited(counts_text(summary, say), (OFFERS,))),
        _answer_table(dossier, sources, say),
        *_requirement_blocks(decided.card, decided.model.revision, say),
        *verdict_blocks(summary, dossier.gpus, sources, say),
        *shortlist_blocks(summary, sources, say),
        *ranking_blocks(decided.card, summary, say),
        *_cost_charts(dossier, say),
        *notes_blocks(decided, summary, say),
        *_details(dossier, sources, say),
        *excluded_blocks(summary, sources, say),
        *steps_blocks(summary, sources, say),
        *_invalidator_blocks(dossier, sources, say),
        *findings_blocks(decided.findings, say),
        *_identity_blocks(dossier, say),
        *_signature_blocks(say),
        *evidence_blocks(dossier, sources, say),
        *calculation_blocks(dossier, sources, say),
    )


def _answer_table(dossier: Dossier, sources: Sources, say: Say) -> Table:
    counts, expiry = dossier.summary.counts, dossier.expiry
    state = next((name for name in ("admissible", "to_confirm", "exclude") if counts[name]), "exclude")
    answers = {
        "admissible": say("something is selected"),
        "to_confirm": say("nothing is selected; something is to confirm"),
        "exclude": say("nothing is selected; everything is excluded"),
    }
    ends: Text = say("no evidence of a selected offer has an end")
    if not counts["admissible"]:
        ends = say("nothing is selected, so nothing ends")
    elif expiry is not None:
        ends = cited(say.moment(expiry.moment), sources.marks((expiry.evidence,)))
    selected = [detail for detail in dossier.in_full if detail.decision.state == "admissible"]
    names: list[Text] = [sources.offer(detail.offer.id) for detail in selected]
    rows: list[tuple[Cell, ...]] = [
        (say("answer"), (State(state, answers[state]),)),
        *((say("selected"), name) for name in names),
        (say("decided on"), say.moment(dossier.decided.now)),
        (say("holds until"), ends),
    ]
    return Table(columns=(say("what"), say("value")), rows=tuple(rows), title=say("The decision in short"))


def _requirement_blocks(card: Card, revision: str | None, say: Say) -> list[Block]:
    rows = tuple((name, (Link(value, CARD.anchor),)) for name, value in _requirements(card, revision, say))
    table = Table(columns=(say("what"), say("value")), rows=rows, title=say("Requirements"))
    text = cited(say("As the workload card states it; the offers do not change it."), (CARD,))
    return [Heading(say("What is asked for"), anchor="requirement"), Paragraph(text), table]


def _requirements(card: Card, revision: str | None, say: Say) -> list[tuple[str, str]]:
    unstated, model, engine, required = say("not stated"), card.model, card.engine, card.tokens.required
    bare = "" if model.parameters is None else say("{count} parameters", count=say.number(model.parameters))
    load = card.concurrency if card.task == "inference" else card.microbatch
    margin = card.margin
    rows = [
        (say("model"), model.id or model.path or bare),
        (say("revision"), revision or unstated),
        (say("task"), say(label(TASK_LABELS, card.task))),
        (say("weight format"), card.weights.format or say("as stored")),
        (say("engine"), unstated if engine is None else f"{engine.name} {engine.version or ''}".strip()),
    ]
    if engine is not None and engine.options:
        options = ", ".join(f"{name}={value}" for name, value in engine.options.items())
        rows.append((say("engine options"), options))
    rows += [
        (say("required tokens per sequence"), unstated if required is None else say.number(required.total)),
        (
            say("concurrency") if card.task == "inference" else say("microbatch"),
            unstated if load is None else say.number(load),
        ),
        (
            say("margin"),
            unstated if margin is None else f"{say.size(margin.amount_bytes)}: {margin.reason or say('no reason')}",
        ),
        (say("quality"), _quality(card, say)),
        (say("GPUs per copy"), _placement(card, say)),
        (say("host"), _host(card, say)),
        (say("budget"), _budget(card, say)),
        (say("calendar"), _calendar(card, say)),
    ]
    return rows


def _absent(value: object, say: Say) -> str:
    return say("not stated") if value is None else say("not applicable, the card says")


def _quality(card: Card, say: Say) -> str:
    if not isinstance(card.quality, Quality):
        return _absent(card.quality, say)
    metrics = []
    for metric in card.quality.metrics:
        bounds = [f">= {say.number(metric.min, _decimals(metric.min))}"] if metric.min is not None else []
        if metric.max_regression is not None:
            loss = say.number(metric.max_regression, _decimals(metric.max_regression))
            bounds.append(say("at most {loss} worse", loss=loss))
        metrics.append(f"{metric.name} {', '.join(bounds)}".strip())
    return "; ".join([*metrics, card.quality.corpus or say("no corpus stated")])


def _decimals(value: object) -> int:
    return len(str(value).partition(".")[2])


def _placement(card: Card, say: Say) -> str:
    placement = card.placement
    return say.number(placement.gpus_per_copy) if isinstance(placement, Placement) else _absent(placement, say)


def _host(card: Card, say: Say) -> str:
    host = card.host
    if not isinstance(host, Host):
        return _absent(host, say)
    parts = [
        ("RAM", say.size(host.ram_bytes) if isinstance(host.ram_bytes, int) else host.ram_bytes),
        (say("storage"), say.size(host.storage_bytes, 0, "GB") if isinstance(host.storage_bytes, int) else None),
        (say("data"), say.size(host.data_bytes, 0, "GB") if host.data_bytes is not None else None),
        (say("outgoing traffic"), say.size(host.egress_bytes, 0, "GB") if isinstance(host.egress_bytes, int) else None),
        (say("managed application"), say("none") if host.managed_application == NONE else host.managed_application),
        (say("interconnect"), say("none") if host.interconnect == NONE else host.interconnect),
    ]
    return ", ".join(f"{name} {value}" for name, value in parts if value is not None) or say("not stated")


def _budget(card: Card, say: Say) -> str:
    budget = card.budget
    if not isinstance(budget, Budget):
        return _absent(budget, say)
    cap = say.money(budget.cap)
    if budget.price_age is None:
        return cap
    hours = say.number(round(budget.price_age.total_seconds() / 3600))
    return say("{cap}, by prices of the last {hours} h", cap=cap, hours=hours)


def _calendar(card: Card, say: Say) -> str:
    calendar = card.calendar
    if not isinstance(calendar, Calendar):
        return _absent(calendar, say)
    stated = [step.hours for step in calendar.steps if step.hours is not None]
    hours = sum(stated)
    parts = [say("{hours} h of work", hours=say.number(hours, _decimals(hours)))] if stated else []
    if len(stated) < len(calendar.steps):
        count = say.number(len(calendar.steps) - len(stated))
        parts.append(say("steps whose duration comes from records: {count}", count=count))
    if calendar.contingency_percent:
        percent = say.number(calendar.contingency_percent, _decimals(calendar.contingency_percent))
        parts.append(say("{percent} % more as contingency", percent=percent))
    if calendar.daily_hours is not None:
        parts.append(say("{hours} h a day", hours=say.number(calendar.daily_hours, _decimals(calendar.daily_hours))))
    if calendar.start is not None:
        parts.append(say("from {moment}", moment=say.moment(calendar.start)))
    if calendar.deadline is not None:
        parts.append(say("before {moment}", moment=say.moment(calendar.deadline)))
    return ", ".join(parts) or say("not stated")


def _cost_charts(dossier: Dossier, say: Say) -> list[Block]:
    """Cost beside margin, one chart for each currency with more than one offer whose figures are both known."""
    charts: list[Block] = []
    for one in dossier.summary.shortlist.lists:
        points = tuple(
            Point(place.offer, "admissible" if place.state == "admissible" else "to_confirm", str(place.cost.amount),
                  place.margin_bytes)
            for place in (*one.selected, *one.to_confirm)
            if place.cost is not None and place.margin_bytes is not None and place.offer in dossier.shown
        )  # fmt: skip
        if len(points) > 1 and one.currency:
            charts.append(
                CostChart(
                    title=say("Cost beside useful margin ({currency})", currency=one.currency),
                    description=say(
                        "One point for each offer whose cost and useful margin are known; offers: {count}. The figures "
                        "are those of the tables of the shortlist.",
                        count=say.number(len(points)),
                    ),
                    points=points,
                    axes=(say("cost, {currency}", currency=one.currency), say("useful margin, GiB")),
                    words=(say(STATE_LABELS["admissible"]), say(STATE_LABELS["to_confirm"])),
                )
            )
    return charts


def _details(dossier: Dossier, sources: Sources, say: Say) -> list[Block]:
    if not dossier.in_full:
        return []
    blocks: list[Block] = [Heading(say("Offers in full"), anchor="offers")]
    for detail in dossier.in_full:
        blocks += offer_blocks(detail, dossier.decided, sources, say)
    if dossier.left_out:
        text = say("Offers that are not excluded and not shown in full: {count}.", count=say.number(dossier.left_out))
        blocks.append(Paragraph(text))
    return blocks


def _invalidator_blocks(dossier: Dossier, sources: Sources, say: Say) -> list[Block]:
    rows = tuple(_invalidator(one, sources, say) for one in dossier.invalidators)
    return [
        Heading(say("What would invalidate this conclusion"), anchor="invalid"),
        Paragraph(
            say(
                "Each of these is read from the scope, the end or the digest of what the conclusion rests on. When one "
                "occurs, decide again."
            )
        ),
        Items(rows),
    ]


def _invalidator(one: Invalidator, sources: Sources, say: Say) -> Text:
    marks = sources.marks(one.evidence)
    inputs = {"decide.invalid-records": RECORDS, "decide.invalid-policy": RULES}
    return cited(say.message(one.message), marks or (inputs.get(one.message.code, CARD),))


def _identity_blocks(dossier: Dossier, say: Say) -> list[Block]:
    identity, card = dossier.identity, dossier.decided.card
    rows = (
        (CARD, say("workload card"), f"{card.name}, {card.file}" if card.file else card.name, identity.card),
        (OFFERS, say("offers, as one set"), say.number(sum(dossier.summary.counts.values())), identity.offers),
        (RECORDS, say("records, as one set"), say.number(len(dossier.records)), identity.records),
        (RULES, say("rules of decision"), f"capienza {__version__}", identity.policy),
    )
    return [
        Heading(say("What was decided on"), anchor="identity"),
        Table(
            columns=(say("mark"), say("what"), say("which"), "sha256"),
            rows=tuple((mark.label, what, which, sha256) for mark, what, which, sha256 in rows),
            anchors=tuple(mark.anchor for mark, *_ in rows),
            title=say("Inputs of the decision; the same inputs give the same document"),
        ),
    ]


def _signature_blocks(say: Say) -> list[Block]:
    return [
        Heading(say("Signature"), anchor="signature"),
        Paragraph(say("To be signed by hand, once the conditions above and the records they cite have been read.")),
        SignatureLines((say("name"), say("role"), say("place and date"), say("signature"))),
    ]


def running_text(dossier: Dossier, say: Say) -> str:
    """What stands at the foot of every printed sheet: the tool and the inputs, by their first digits."""
    identity = dossier.identity
    return say(
        "capienza {version}: card {card}, offers {offers}, records {records}, rules {rules}",
        version=__version__,
        card=identity.card[:12],
        offers=identity.offers[:12],
        records=identity.records[:12],
        rules=identity.policy[:12],
    )
