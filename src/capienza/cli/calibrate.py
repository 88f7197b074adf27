"""`capienza calibrate`."""

from __future__ import annotations

import sys

import click

from capienza.cli.base import Command, argument, lang_option


@click.command(
    "calibrate",
    cls=Command,
    help="Recompute the ceilings from measured cases (.jsonl) and write them as one JSON document: for each engine and "
    "quantity the cases behind it, measured over expected. On one day equal cases give an equal document; the one that "
    "comes with the package is made so (scripts/calibrate). Cases, AgileRL's profiles and Sailor's table are read.",
)
@argument("files", metavar="FILE...", nargs=-1, required=True, help="Files of measured cases, one JSON object a line.")
@lang_option
def calibrate_command(files: tuple[str, ...]) -> None:
    """Run `capienza.api.calibrate` and write the document."""
    import msgspec

    from capienza.api.validating import calibrate
    from capienza.canon import pretty

    sys.stdout.write(pretty(msgspec.to_builtins(calibrate(files))) + "\n")
