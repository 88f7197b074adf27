"""`capienza alternatives`."""

from __future__ import annotations

import click

from capienza.cli.base import Command, argument, option, shown_as


@click.command(
    "alternatives",
    cls=Command,
    help="Change exactly one thing of a card: another GPU, a format, the recipe, how a copy is divided, what the "
    "engine takes. For each: the predicted effect on every phase, whether a rule refuses it, and which evidence it "
    "invalidates. The requirement stays as it is. With --failed, what lowers that phase comes first.",
)
@argument("card", metavar="CARD", help="A workload card.")
@option("--gpu", metavar="NAME[xN]", help="The GPU that it runs on; N: as many at hand.")
@option("--offer", metavar="ID", help="The offer that it runs on, one of --offers.")
@option("--offers", multiple=True, metavar="FILE", help="Offers whose GPUs are the other ones; may be repeated.")
@option("--failed", metavar="PHASE", help="The phase that failed, such as prefill or backward.")
@option("--evidence", metavar="DIR", help="A folder of records.")
@shown_as
def alternatives_command(
    card: str,
    gpu: str | None,
    offer: str | None,
    offers: tuple[str, ...],
    failed: str | None,
    evidence: str | None,
    form: str,
    as_json: bool,
) -> None:
    """Run `capienza.api.alternatives` and show the result."""
    from capienza.api.alternating import alternatives
    from capienza.cli.output import show

    found = alternatives(card, gpu, offer=offer, offers=offers or None, failed=failed, evidence=evidence)

    if as_json or form == "json":
        from capienza.report.alternatives_data import alternatives_data

        show(form, True, document=lambda _: (), data=lambda: alternatives_data(found))
    else:
        from capienza.report.alternatives import alternatives_document

        show(form, False, document=lambda say: alternatives_document(found, say), data=dict)
