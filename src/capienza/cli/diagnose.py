"""`capienza diagnose`."""

from __future__ import annotations

import click

from capienza.cli.base import Command, argument, shown_as


@click.command(
    "diagnose",
    cls=Command,
    help="Read the log of a run: which phase failed, the cause, the figures it prints, what explains the failure by "
    "arithmetic, what to examine, and what not to change in silence. A log without a failure says so.",
)
@argument("log", metavar="LOG|-", help="The log of a run, or - for standard input.")
@shown_as
def diagnose_command(log: str, form: str, as_json: bool) -> None:
    """Run `capienza.api.diagnose` and show the result."""
    from capienza.api.diagnosing import diagnose
    from capienza.cli.output import show
    from capienza.report.diagnose import diagnose_data, diagnose_document

    found = diagnose(log)
    show(form, as_json, document=lambda say: diagnose_document(found, say), data=lambda: diagnose_data(found))
