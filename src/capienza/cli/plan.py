"""`capienza plan`."""

from __future__ import annotations

import click

from capienza.cli.base import Command, argument, option, shown_as

HELD, TO_CONFIRM, EXCLUDED = 0, 10, 11


@click.command(
    "plan",
    cls=Command,
    help="Cost and calendar of a workload card: its steps with what their hours rest on, and for each offer when the "
    "work can be finished and what is paid, line by line. Without --offers the calendar alone. Exit code 0: budget and "
    "calendar of some offer are met; 10: something is to confirm; 11: nothing can be done in time or within the cap.",
)
@argument("card", metavar="CARD", help="A workload card.")
@option("--offers", multiple=True, metavar="FILE", help="Offers (.yaml, .json, .jsonl, .csv); may be repeated.")
@option("--evidence", metavar="DIR", help="A folder of records.")
@shown_as
@click.pass_context
def plan_command(
    ctx: click.Context, card: str, offers: tuple[str, ...], evidence: str | None, form: str, as_json: bool
) -> None:
    """Run `capienza.api.plan` and show the result."""
    from capienza.api.planning import plan
    from capienza.cli.output import show
    from capienza.report.plan import plan_data, plan_document, states_of

    planned = plan(card, offers or None, evidence)
    show(form, as_json, document=lambda say: plan_document(planned, say), data=lambda: plan_data(planned))
    states = states_of(planned)
    ctx.exit(HELD if states & {"admissible", "not_applicable"} else TO_CONFIRM if "to_confirm" in states else EXCLUDED)
