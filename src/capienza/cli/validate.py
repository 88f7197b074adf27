"""`capienza validate`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import click

from capienza.cli.base import Command, argument, option, shown_as
from capienza.errors import UsageError, template

if TYPE_CHECKING:
    from capienza.validate.groups import By

BAD_BY = template("validate.by", "expected {accepted}, separated by commas, got {found}")
FIELDS = ("engine", "arch", "format", "method", "family")


@click.command(
    "validate",
    cls=Command,
    help="Predict measured cases (.jsonl) from what their user knew beforehand, and compare with what was logged: "
    "every row with its error, and for each quantity median, 95th percentile, largest error, bias and coverage. "
    "AgileRL's profiles (.json) and Sailor's table of runs (.csv) are read too.",
)
@argument("files", metavar="FILE...", nargs=-1, required=True, help="Files of measured cases, one JSON object a line.")
@option("--by", metavar="LIST", help="Split the groups by engine, arch, format, method, family, separated by commas.")
@shown_as
def validate_command(files: tuple[str, ...], by: str | None, form: str, as_json: bool) -> None:
    """Run `capienza.api.validate` and show the result."""
    from capienza.api.validating import validate
    from capienza.cli.output import show
    from capienza.report.validation import validation_data, validation_document

    validation = validate(files, _fields(by))
    show(
        form,
        as_json,
        document=lambda say: validation_document(validation, say),
        data=lambda: validation_data(validation),
    )


def _fields(by: str | None) -> tuple[By, ...]:
    if by is None:
        return ()
    fields = tuple(dict.fromkeys(part.strip() for part in by.split(",")))
    if not set(fields) <= set(FIELDS):
        raise UsageError(BAD_BY(accepted=FIELDS, found=by))
    return cast("tuple[By, ...]", fields)
