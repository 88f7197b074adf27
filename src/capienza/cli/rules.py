"""`capienza rules`."""

from __future__ import annotations

import click

from capienza.cli.base import Command, option, shown_as


@click.command(
    "rules",
    cls=Command,
    help="List the rules of compatibility with their sources. With --engine and --gpu each is judged on that GPU: met, "
    "refused, no code for it, slower, or weights held in a larger format than the stored one.",
)
@option("--engine", help="Only the rules of this engine and of what it loads.")
@option("--version", help="Its version; rules of other releases are then said to be so.")
@option("--gpu", help="A GPU name as sellers or drivers write it.")
@option("--weights", help="Only this format of weights, or quantisation method.")
@option("--cache", help="Only this format of the KV cache.")
@shown_as
def rules_command(
    engine: str | None,
    version: str | None,
    gpu: str | None,
    weights: str | None,
    cache: str | None,
    form: str,
    as_json: bool,
) -> None:
    """Show the rules."""
    from capienza.api.ruling import rules
    from capienza.cli.output import show
    from capienza.report.rules import rules_data, rules_document

    found = rules(engine, version=version, gpu=gpu, weights=weights, cache=cache)
    show(form, as_json, document=lambda say: rules_document(found, say), data=lambda: rules_data(found))
