"""`capienza limits`."""

from __future__ import annotations

import click

from capienza.cli.base import Command, argument, option, shown_as
from capienza.cli.values import WholeNumber

MAX_GPUS = 1024


@click.command(
    "limits",
    cls=Command,
    help="Find how far a card's workload goes on a GPU: the largest required length at the card's concurrency or "
    "microbatch, and the largest of these at its length, each with the phase and the entry that bind. The card itself "
    "is not changed.",
)
@argument("card", metavar="CARD", help="A workload card.")
@option("--gpu", metavar="NAME[xN]", required=True, help="The GPU, or N of them.")
@option("--gpus", type=WholeNumber(1, MAX_GPUS), help="How many of them one copy of the model is on.")
@shown_as
def limits_command(card: str, gpu: str, gpus: int | None, form: str, as_json: bool) -> None:
    """Run `capienza.api.limits` and show the result."""
    from capienza.api.limiting import limits
    from capienza.cli.output import show
    from capienza.report.limits import limits_data, limits_document

    found = limits(card, gpu, gpus)
    show(form, as_json, document=lambda say: limits_document(found, say), data=lambda: limits_data(found))
