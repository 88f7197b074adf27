"""`capienza doctor`."""

from __future__ import annotations

import click

from capienza.cli.base import Command, option, shown_as
from capienza.errors import UsageError, template

NEEDS_FOLDER = template(
    "doctor.needs-folder", "{option} goes into a record, and no folder of records is given", "give --evidence DIR too"
)


@click.command(
    "doctor",
    cls=Command,
    help="What this machine is: system, processor, memory, disk, Python and its packages, driver and GPUs. Nothing is "
    "sent anywhere, nothing is loaded on a GPU; a driver's program that hangs is stopped.",
)
@option("--evidence", metavar="DIR", help="Also write what was found as a record into this folder.")
@option("--offer", metavar="ID", help="The offer that this machine is of; enters the scope of the record.")
@option("--provider", metavar="NAME", help="The provider of this machine; enters the scope of the record.")
@shown_as
def doctor_command(evidence: str | None, offer: str | None, provider: str | None, form: str, as_json: bool) -> None:
    """Probe this machine."""
    from capienza.api.probing import doctor
    from capienza.cli.output import show
    from capienza.report.doctor import doctor_data, doctor_document

    if evidence is None and (offer or provider):
        raise UsageError(NEEDS_FOLDER(option="--offer" if offer else "--provider"))
    found = doctor(evidence, offer, provider)
    fields = (found.environment, found.record, found.path)
    show(form, as_json, document=lambda say: doctor_document(*fields, say), data=lambda: doctor_data(*fields))
