"""`capienza decide`."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Callable, Container, Iterator
from typing import TYPE_CHECKING

import click

from capienza.cli.base import Command, argument, option, shown_as
from capienza.cli.streams import reader_may_leave
from capienza.errors import UsageError, template

if TYPE_CHECKING:
    from pathlib import Path

    from capienza.decide.gather import Gathering
    from capienza.decide.run import Decided, Judged
    from capienza.decide.summary import Summary
    from capienza.decide.verdict import Decision

NO_SUCH_OFFER = template("decide.no-such-offer", "no offer has the id {found}", "capienza offers list shows the ids")
NO_SUCH_CRITERION = template("decide.no-such-criterion", "there is no criterion {found}", "take one of {accepted}")
KEEP_ALONE = template(
    "decide.keep-alone", "--keep needs a folder and a whole decision", "give --evidence DIR, and leave --why out"
)
OUT_OR_WHY = template(
    "decide.out-or-why", "--out writes the whole decision, --why shows one verdict of it", "keep one of the two"
)
ONE_CARD = template(
    "decide.one-card",
    "several cards are compared over the same --offers; --why, --out and --keep are about one card",
    "give --offers FILE and leave the others out, or give one card",
)
SELECTED, TO_CONFIRM, EXCLUDED = 0, 10, 11
IN_MEMORY_BYTES = 16 * 2**20
CHUNK_CHARACTERS = 2**20


@click.command(
    "decide",
    cls=Command,
    help="Judge offers against a workload card: six mandatory criteria, three verdicts, what proves them and what "
    "would settle the rest. Without --offers every GPU of the catalogue is a candidate. Exit code 0: something is "
    "selected; 10: something is to confirm; 11: everything is excluded; the same with --why. Several cards are "
    "answered in one table, and the exit code is the highest of theirs.",
)
@argument("cards", metavar="CARD...", nargs=-1, required=True, help="Workload cards; one is shown in full.")
@option("--offers", multiple=True, metavar="FILE", help="Offers (.yaml, .json, .jsonl, .csv); may be repeated.")
@option("--evidence", metavar="DIR", help="A folder of records.")
@option("--out", metavar="FILE", help="Also write a document to sign: FILE.html, one page that prints, or FILE.md.")
@option(
    "--why",
    nargs=2,
    metavar="OFFER CRITERION",
    help="Show one verdict: reasons, evidence, what would settle it; the criterion by its name or its number.",
)
@option("--keep", is_flag=True, help="Put a record of the decision into the folder of --evidence.")
@shown_as
@click.pass_context
def decide_command(
    ctx: click.Context,
    cards: tuple[str, ...],
    offers: tuple[str, ...],
    evidence: str | None,
    out: str | None,
    why: tuple[str, str] | None,
    keep: bool,
    form: str,
    as_json: bool,
) -> None:
    """Run `capienza.api.decide` and show the result."""
    from capienza.api.deciding import decide

    if len(cards) > 1:
        if not offers or keep or why is not None or out is not None:
            raise UsageError(ONE_CARD())
        ctx.exit(_many(cards, offers, evidence, form, as_json))
    if keep and (evidence is None or why is not None):
        raise UsageError(KEEP_ALONE())
    target = None if out is None else _target(out, why)
    decided = decide(cards[0], offers or None, evidence, keep=keep)
    # All are judged before anything is written: a problem in the last line of a file must not follow half an answer.
    if why is not None:
        states = _why(decided, *why, form, as_json)
    else:
        summary = _answer(decided, "json" if as_json else form, target, evidence if keep else None)
        states = {state for state, count in summary.counts.items() if count}
    ctx.exit(_code(states))


def _code(states: Container[str]) -> int:
    return SELECTED if "admissible" in states else TO_CONFIRM if "to_confirm" in states else EXCLUDED


def _many(cards: tuple[str, ...], offers: tuple[str, ...], evidence: str | None, form: str, as_json: bool) -> int:
    """Show the answers for several cards; the highest of their exit codes comes back."""
    from capienza.api.many import decide_many
    from capienza.cli.output import show
    from capienza.report.many import many_data, many_document

    answers = decide_many(cards, offers, evidence)
    with reader_may_leave():
        show(form, as_json, document=lambda say: many_document(answers, say), data=lambda: many_data(answers))
    return max(_code({state for state, count in answer.counts.items() if count}) for answer in answers)


def _keep(decided: Decided, evidence: str) -> None:
    """Write the record of the decision, and say where."""
    from capienza.api.deciding import keep_decision
    from capienza.cli.output import current_say

    _, path = keep_decision(decided, evidence)
    click.echo(current_say()("The decision is kept as {path}.", path=str(path)), err=True)


def _target(out: str, why: tuple[str, str] | None) -> Path:
    """Where the document goes; whether it can be made and written there is found out before all the work."""
    from pathlib import Path

    from capienza.report.page import prepare

    if why is not None:
        raise UsageError(OUT_OR_WHY())
    path = Path(out)
    prepare(path)
    return path


def _answer(decided: Decided, form: str, target: Path | None, keep_in: str | None) -> Summary:
    """Judge all, write the document and the record where they are wanted, show the answer."""
    show = _show_json if form == "json" else _show

    def kept(_: Summary) -> None:
        if keep_in is not None:
            _keep(decided, keep_in)

    if target is None:
        return show(decided, form, kept)
    import msgspec

    from capienza.decide.gather import Gathering

    with Gathering() as gathering:
        watched = msgspec.structs.replace(decided, judged=gathering.watch(decided.judged))

        def written(summary: Summary) -> None:
            _write(watched, summary, gathering, target)
            kept(summary)

        # Before the answer is shown: a failure must not follow half an answer.
        return show(watched, form, written)


def _write(decided: Decided, summary: Summary, gathering: Gathering, target: Path) -> None:
    from capienza.cli.output import current_say
    from capienza.decide.dossier import dossier_of
    from capienza.report.page import write_document
    from capienza.report.plain import visible

    say = current_say()
    write_document(dossier_of(decided, summary, gathering), target, say.language)
    sys.stderr.write(visible(say("written: {file}", file=str(target))) + "\n")


def _why(decided: Decided, offer: str, criterion: str, form: str, as_json: bool) -> set[str]:
    """Show one verdict. The states of all offers come back: what is shown does not change the exit code."""
    from capienza.cli.output import current_say, show
    from capienza.report.decide import CRITERION_LABELS, why_document
    from capienza.report.decide_data import why_data
    from capienza.report.labels import named

    numbers = {str(number): name for number, name in enumerate(CRITERION_LABELS, 1)}  # as the tables head them
    criterion = numbers.get(criterion) or named(CRITERION_LABELS, criterion, current_say())
    if criterion not in CRITERION_LABELS:
        raise UsageError(NO_SUCH_CRITERION(found=criterion, accepted=tuple(CRITERION_LABELS)))
    found, states = None, set[str]()
    for one in decided.judged:
        states.add(one.decision.state)
        found = one if one.offer.id == offer else found
    if found is None:
        raise UsageError(NO_SUCH_OFFER(found=offer))
    row = found.decision.criterion(criterion)
    cited = {reference.id for reference in row.evidence}
    records = {record.id: record for record in decided.records if record.id in cited}
    with reader_may_leave():
        show(
            form,
            as_json,
            document=lambda say: why_document(
                found.decision, found.offer, row, records, say.in_zone(decided.card.zone or datetime.UTC)
            ),
            data=lambda: {
                "schema": "capienza.why/1",
                "offer": offer,
                **why_data(found.decision, row),
                "records": [records[identity] for identity in sorted(records)],
            },
        )
    return states


def _show_json(decided: Decided, _: str, before: Callable[[Summary], None]) -> Summary:
    """One document. The decisions wait in a file that stays in memory while it is small."""
    import tempfile

    from capienza.cli.streams import json_output
    from capienza.decide.summary import summarise
    from capienza.report.decide_data import decision_chunks, head_text

    decisions: list[Decision] = []

    def passing() -> Iterator[Judged]:
        for one in decided.judged:
            decisions.append(one.decision)
            yield one

    # A file name that is no UTF-8 comes as half surrogates, which have to pass through.
    with tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES, "w+", encoding="utf-8", errors="surrogatepass") as waiting:
        for piece in decision_chunks(passing()):
            waiting.write(piece)  # writelines() would keep everything in memory
        summary = summarise(decided.card, decisions)
        before(summary)
        output = json_output()
        waiting.seek(0)
        with reader_may_leave():
            output.write(head_text(decided, summary))
            while chunk := waiting.read(CHUNK_CHARACTERS):
                output.write(chunk)
            output.write("\n]}\n")
    return summary


def _show(decided: Decided, form: str, before: Callable[[Summary], None]) -> Summary:
    from capienza.cli.output import show
    from capienza.decide.gather import GpuCount
    from capienza.decide.summary import summarise
    from capienza.report.decide import decide_document

    decisions: list[Decision] = []
    gpus: dict[str, GpuCount] = {}
    for one in decided.judged:
        decisions.append(one.decision)
        gpus[one.offer.id] = GpuCount(one.offer.gpu, one.offer.gpus)
    summary = summarise(decided.card, decisions)
    before(summary)
    with reader_may_leave():
        show(form, False, document=lambda say: decide_document(decided, summary, gpus, say), data=dict)
    return summary
