"""`capienza devices`."""

from __future__ import annotations

import click

from capienza.cli.base import Command, argument, shown_as


@click.command(
    "devices",
    cls=Command,
    help="List the GPUs of the catalogue with every capacity known, or those that NAME may mean. An empty figure is "
    "unknown, never zero.",
)
@argument("name", required=False, help="A GPU name as sellers or drivers write it.")
@shown_as
def devices_command(name: str | None, form: str, as_json: bool) -> None:
    """Show the devices."""
    from capienza.api.catalogue import devices
    from capienza.cli.output import show
    from capienza.report.devices import devices_data, devices_document

    found = devices(name)
    show(form, as_json, document=lambda say: devices_document(found, say), data=lambda: devices_data(found))
