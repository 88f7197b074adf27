"""`capienza evidence add|list|show|verify|export`."""

from __future__ import annotations

import sys
from typing import Any

import click

from capienza.cli.base import Command, Group, argument, lang_option, option, shown_as
from capienza.errors import UsageError, template

HERE = "capienza.cli.evidence"
FOLDER = "evidence"
NOT_VERIFIED = 20
KINDS = (
    "commercial_sheet", "software_page", "environment_probe", "calculation", "measurement", "evaluation", "plan",
    "waiver", "supersedes", "invalidates",
)  # fmt: skip
"""The classes of `records.classes`, which the help need not load; a test compares the two."""

NOTHING_GIVEN = template("evidence.nothing-given", "there is nothing to add", "give a file, or --kind with its options")
FILE_AND_OPTIONS = template(
    "evidence.file-and-options", "{option} is given beside a file", "write it in the file, or leave the file out"
)
TEMPLATE_WITHOUT_KIND = template("evidence.template-without-kind", "--template needs --kind", "take one of {accepted}")

folder_option = option(
    "--evidence", "folder", metavar="DIR", default=FOLDER, show_default=True, help="The folder of records."
)


@click.group(
    "evidence",
    cls=Group,
    table={
        "add": (HERE, "Seal a document, a measurement, a waiver... as a record of the folder."),
        "list": (HERE, "The records of a folder: what they state, and which of them count."),
        "show": (HERE, "One record in full, and what refers to it."),
        "verify": (HERE, "Check every digest and reference; decide again what was decided."),
        "export": (HERE, "Write the folder as an RO-Crate, with in-toto statements."),
    },
    help="The records of a campaign: files of one folder, named by their digest, never edited.",
)
@lang_option
def evidence_command() -> None:
    """The group."""


@click.command(
    "add",
    cls=Command,
    help="Seal FILE (a form in YAML or JSON, or a record made elsewhere) and put it into the folder; or, without FILE, "
    "what the options state. What is there already stays as it is. --kind KIND --template prints a form to fill in.",
)
@argument("file", required=False, metavar="FILE", help="A form, or a record made elsewhere.")
@folder_option
@option("--kind", type=click.Choice(KINDS), help="What is given as evidence.")
@option("--template", "is_template", is_flag=True, help="Print the form of this kind instead of adding anything.")
@option("--document", metavar="FILE", help="The document itself: its name and digest are taken.")
@option(
    "--source", metavar="WORD", help="Of a commercial sheet: contract, invoice, provider_api, public_page, catalogue."
)
@option("--scope", multiple=True, metavar="FIELD=VALUE", help="What it speaks of; may be repeated.")
@option("--claim", "claims", multiple=True, metavar="QUANTITY=VALUE", help="What it states; may be repeated.")
@option(
    "--criterion", "criteria", multiple=True, metavar="NAME", help="Of a waiver: what is let pass; may be repeated."
)
@option("--withdraw", "withdraws", multiple=True, metavar="ID", help="Of supersedes and invalidates; may be repeated.")
@option("--input", "inputs", multiple=True, metavar="ID|FILE", help="What it was made from; may be repeated.")
@option("--author", help="Who answers for it.")
@option("--reason", help="Why.")
@option("--date", metavar="DATE", help="When it was issued, read or measured, with its offset; left out: now.")
@option("--expires", metavar="DATE", help="When it stops counting, with its offset.")
@shown_as
@click.pass_context
def add_command(
    ctx: click.Context, /, file: str | None, folder: str, is_template: bool, form: str, as_json: bool, **given: Any
) -> None:
    """Add a record."""
    from capienza.api.recording import evidence_add
    from capienza.cli.output import current_say, show
    from capienza.report.evidence import added_document
    from capienza.report.evidence_data import added_data

    options = {name: value for name, value in given.items() if value}
    if is_template:
        from capienza.records.templates import form_template

        if "kind" not in options:
            raise UsageError(TEMPLATE_WITHOUT_KIND(accepted=KINDS))
        sys.stdout.write(form_template(options["kind"], current_say()))
        return
    added = evidence_add(folder, _given(ctx, file, options))
    fields = (added.record, added.path, added.is_new, added.notes)
    show(form, as_json, document=lambda say: added_document(*fields, say), data=lambda: added_data(*fields))


def _given(ctx: click.Context, file: str | None, options: dict[str, Any]) -> str | dict[str, Any]:
    """The file, or the options as keys of the form."""
    if file is not None:
        if options:
            first = next(param.opts[0] for param in ctx.command.params if param.name in options)
            raise UsageError(FILE_AND_OPTIONS(option=first))
        return file
    if "kind" not in options:
        raise UsageError(NOTHING_GIVEN())
    if "document" in options:
        options["document"] = {"file": options["document"]}
    return {"evidence": "1", "date": _now(), **options}


def _now() -> str:
    import datetime

    return datetime.datetime.now(datetime.UTC).replace(microsecond=0).isoformat()


@click.command(
    "list",
    cls=Command,
    help="The records of a folder, the newest first: what they speak of, what they state, and whether they count now.",
)
@folder_option
@shown_as
def list_command(folder: str, form: str, as_json: bool) -> None:
    """List records."""
    from capienza.api.recording import evidence_list
    from capienza.cli.output import show
    from capienza.report.evidence_data import list_data
    from capienza.report.evidence_list import list_document

    found = evidence_list(folder)
    show(
        form,
        as_json,
        document=lambda say: list_document(found.rows, found.findings, say),
        data=lambda: list_data(found.rows, found.now, found.findings),
    )


@click.command("show", cls=Command, help="One record in full, whether it counts now, and the records that refer to it.")
@argument("record", metavar="ID", help="The id of the record, or its first digits.")
@folder_option
@shown_as
def show_command(record: str, folder: str, form: str, as_json: bool) -> None:
    """Show a record."""
    from capienza.api.recording import evidence_show
    from capienza.cli.output import show
    from capienza.report.evidence import show_document
    from capienza.report.evidence_data import show_data

    found = evidence_show(folder, record)
    show(
        form,
        as_json,
        document=lambda say: show_document(found.row, found.referring, found.path, say),
        data=lambda: show_data(found.row, found.referring, found.path),
    )


@click.command(
    "verify",
    cls=Command,
    help="Check every record of a folder against its digest and its name, and every reference. With a card and its "
    "offers, decide again what was decided on them and kept. Exit code 20: something does not verify.",
)
@folder_option
@option("--card", metavar="CARD", help="The card of the decisions to decide again.")
@option("--offers", multiple=True, metavar="FILE", help="Its offers; may be repeated.")
@shown_as
@click.pass_context
def verify_command(
    ctx: click.Context, folder: str, card: str | None, offers: tuple[str, ...], form: str, as_json: bool
) -> None:
    """Verify a folder."""
    from capienza.api.recording import evidence_verify
    from capienza.cli.output import show
    from capienza.report.evidence import verify_document
    from capienza.report.evidence_data import verify_data

    found = evidence_verify(folder, card, offers or None)
    fields = (found.count, found.root, found.problems, found.rechecked, found.not_rechecked, found.findings)
    show(form, as_json, document=lambda say: verify_document(*fields, say), data=lambda: verify_data(*fields))
    ctx.exit(NOT_VERIFIED if found.problems else 0)


@click.command(
    "export",
    cls=Command,
    help="Write the records as an RO-Crate 1.1 (Process Run Crate), each also as an in-toto statement. The same "
    "records give the same bytes; an earlier export is brought up to date.",
)
@folder_option
@option("--out", required=True, metavar="FOLDER", help="Where to write: a new folder, or an earlier export.")
@shown_as
def export_command(folder: str, out: str, form: str, as_json: bool) -> None:
    """Export a folder."""
    from capienza.api.recording import evidence_export
    from capienza.cli.output import show
    from capienza.report.evidence import export_document
    from capienza.report.evidence_data import export_data

    found = evidence_export(folder, out)
    fields = (found.folder, found.count, found.root)
    show(form, as_json, document=lambda say: export_document(*fields, say), data=lambda: export_data(*fields))
