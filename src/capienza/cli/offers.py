"""`capienza offers list|check|import`."""

from __future__ import annotations

import sys

import click

from capienza.cli.base import Command, Group, argument, lang_option, option, shown_as

HERE = "capienza.cli.offers"
TERMINATED = 143


@click.group(
    "offers",
    cls=Group,
    table={
        "list": (HERE, "Show the offers of some files as they were understood."),
        "check": (HERE, "Check files of offers and say every problem."),
        "import": (HERE, "Convert a file of offers, of ours or of others, to one JSON object a line."),
    },
    help="List, check and convert files of offers (YAML, JSON, JSONL, CSV).",
)
@lang_option
def offers_command() -> None:
    """The group."""


@click.command("list", cls=Command, help="Show the offers of some files as they were understood.")
@argument("files", nargs=-1, required=True, metavar="FILE...", help="Files of offers.")
@shown_as
def list_command(files: tuple[str, ...], form: str, as_json: bool) -> None:
    """List offers."""
    from capienza.api.offer_files import offers
    from capienza.catalog.notes import Findings
    from capienza.cli.output import show
    from capienza.report.offers import offers_data, offers_document

    findings = Findings()
    found = tuple(offers(files, findings))
    show(
        form,
        as_json,
        document=lambda say: offers_document(found, findings, say),
        data=lambda: offers_data(found, findings),
    )


@click.command(
    "check",
    cls=Command,
    help="Check files of offers: every problem with file, line and key, and what must be known about the offers that "
    "are in order.",
)
@argument("files", nargs=-1, required=True, metavar="FILE...", help="Files of offers.")
@shown_as
def check_command(files: tuple[str, ...], form: str, as_json: bool) -> None:
    """Check offers."""
    from capienza.api.offer_files import offers_check
    from capienza.cli.output import show
    from capienza.report.offers import check_data, check_document

    report = offers_check(files)
    show(
        form,
        as_json,
        document=lambda say: check_document(report.count, report.findings, say),
        data=lambda: check_data(report.count, report.findings),
    )


@click.command(
    "import",
    cls=Command,
    help="Convert FILE to the full form, one JSON object a line. FILE is in a form of ours, or in one of others: every "
    "row of theirs is an offer or a finding that says how it was understood and why it is left out.",
)
@argument("file", metavar="FILE", help="A file of offers.")
@option("--out", required=True, metavar="FILE.jsonl", help="Where to write; appears complete or not at all.")
@option(
    "--from",
    "source_form",
    metavar="FORM",
    help="The form of others: gpuhunt, skypilot, vast, runpod, lambda or aws-capacity-blocks; without it, recognised.",
)
@option("--provider", metavar="NAME", help="Who sells, where the file does not say it.")
@option("--retrieved", metavar="DATE", help="The day the file was fetched; without it, its prices stay to confirm.")
@option("--fresh-for", metavar="TIME", help="How long its prices hold from that day, such as 7 days.")
@shown_as
def import_command(
    file: str,
    out: str,
    provider: str | None,
    retrieved: str | None,
    fresh_for: str | None,
    form: str,
    as_json: bool,
    source_form: str | None,
) -> None:
    """Convert offers."""
    import signal

    from capienza.api.offer_files import offers_import
    from capienza.cli.output import show
    from capienza.report.offers import import_data, import_document

    # Ended like an interrupt, so that the half-written file is taken away.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    report = offers_import(file, out, source_form, provider=provider, retrieved=retrieved, fresh_for=fresh_for)
    show(
        form,
        as_json,
        document=lambda say: import_document(report.count, report.form, report.findings, say),
        data=lambda: import_data(report.count, report.form, report.findings),
    )
