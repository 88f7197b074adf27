"""`capienza decide`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from capienza.cli.base import Command, argument, option, shown_as
from capienza.errors import UsageError, template

if TYPE_CHECKING:
    from capienza.api.decide import Judged
    from capienza.catalog.offer import Offer
    from capienza.decide.verdict import Decision

NO_SUCH_OFFER = template("decide.no-such-offer", "no offer has the id {found}", "capienza offers list shows the ids")
NO_SUCH_CRITERION = template("decide.no-such-criterion", "there is no criterion {found}", "take one of {accepted}")
SELECTED, TO_CONFIRM, EXCLUDED = 0, 10, 11


@click.command(
    "decide",
    cls=Command,
    help="Judge offers against a workload card: six mandatory criteria, three verdicts, what proves them and what "
    "would settle the rest. Without --offers every GPU of the catalogue is a candidate. Exit code 0: something is "
    "selected; 10: something is to confirm; 11: everything is excluded.",
)
@argument("card", metavar="CARD", help="A workload card.")
@option("--offers", multiple=True, metavar="FILE", help="Offers (.yaml, .json, .jsonl, .csv); may be repeated.")
@option("--evidence", metavar="DIR", help="A folder of records.")
@option("--why", nargs=2, metavar="OFFER CRITERION", help="Show one verdict: reasons, evidence, what would settle it.")
@shown_as
@click.pass_context
def decide_command(
    ctx: click.Context,
    card: str,
    offers: tuple[str, ...],
    evidence: str | None,
    why: tuple[str, str] | None,
    form: str,
    as_json: bool,
) -> None:
    """Run `capienza.api.decide` and show the result."""
    import gc

    from capienza.api.decide import decide
    from capienza.decide.summary import summarise

    # Decisions only pile up until the end and hold no cycles; looking for some costs a third of the time.
    gc.disable()

    decided = decide(card, offers or None, evidence)
    if why is not None:
        _why(decided.judged, *why, form, as_json)
        return
    decisions: list[Decision] = []
    kept: dict[str, Offer] = {}

    def passing() -> Iterator[tuple[Offer, Decision]]:
        for one in decided.judged:
            decisions.append(one.decision)
            kept[one.offer.id] = one.offer
            yield one.offer, one.decision

    if as_json or form == "json":
        from capienza.report.decide_data import decide_chunks

        chunks = decide_chunks(
            decided.card,
            passing(),
            lambda: summarise(decided.card, decisions),
            decided.findings,
            decided.record_findings,
            decided.now.isoformat(),
        )
        for chunk in chunks:
            sys.stdout.write(chunk)
    else:
        from capienza.cli.output import show
        from capienza.report.decide import decide_document

        for _ in passing():
            pass
        summary = summarise(decided.card, decisions)
        show(
            form,
            False,
            document=lambda say: decide_document(
                decided.card, summary, kept, decided.findings, decided.record_findings, say
            ),
            data=dict,
        )
    states = {decision.state for decision in decisions}
    ctx.exit(SELECTED if "admissible" in states else TO_CONFIRM if "to_confirm" in states else EXCLUDED)


def _why(judged: Iterator[Judged], offer: str, criterion: str, form: str, as_json: bool) -> None:
    from capienza.cli.output import show
    from capienza.report.decide import CRITERION_LABELS, why_document
    from capienza.report.decide_data import criterion_data

    if criterion not in CRITERION_LABELS:
        raise UsageError(NO_SUCH_CRITERION(found=criterion, accepted=tuple(CRITERION_LABELS)))
    found = next((one for one in judged if one.offer.id == offer), None)
    if found is None:
        raise UsageError(NO_SUCH_OFFER(found=offer))
    row = found.decision.criterion(criterion)
    show(
        form,
        as_json,
        document=lambda say: why_document(found.decision, found.offer, row, say),
        data=lambda: {"schema": "capienza.why/1", "offer": offer, **criterion_data(row)},
    )
