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
        "import": (HERE, "Convert a file of offers, of any length, to one JSON object a line."),
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
    help="Convert FILE to the full form, one JSON object a line. This is the way for files that are too long for YAML.",
)
@argument("file", metavar="FILE", help="A file of offers.")
@option("--out", required=True, metavar="FILE.jsonl", help="Where to write; appears complete or not at all.")
@lang_option
def import_command(file: str, out: str) -> None:
    """Convert offers."""
    import signal

    from capienza.api.offer_files import offers_import
    from capienza.cli.output import current_say
    from capienza.report.offers import check_document
    from capienza.report.plain import plain_text

    # Ended like an interrupt, so that the half-written file is taken away.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    report = offers_import(file, out)
    sys.stderr.write(plain_text(check_document(report.count, report.findings, current_say())))
