"""`capienza trace CARD` and `capienza trace replay SNAPSHOT`."""

from __future__ import annotations

from itertools import pairwise

import click

from capienza.cli.base import Command, Group, argument, lang_option, option, shown_as
from capienza.cli.values import WholeNumber

HERE = "capienza.cli.trace"
CARD = "card"
STEPS, MAX_STEPS = 2, 100


class TraceGroup(Group):
    """A group whose first word, where it names none of its commands, is a card."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the command's name before a card."""
        words = [word for before, word in pairwise(["", *args]) if before != "--lang" and not word.startswith("-")]
        if CARD in self.table and words and words[0] not in self.table:
            args = [CARD, *args]
        return super().parse_args(ctx, args)


@click.group(
    "trace",
    cls=TraceGroup,
    table={
        CARD: (HERE, "The peak of a card's program, run on fake tensors (the word may be left out)."),
        "replay": (HERE, "A recording of a real card beside the model of PyTorch's allocator."),
    },
    help="The peak of a PyTorch program without a GPU, and what a recording of a real card says of the model.",
)
@lang_option
def trace_command() -> None:
    """The group."""


@click.command(
    "card",
    cls=Command,
    help="Build the program that a workload card asks for (a training or a generation by transformers), run it on fake "
    "tensors, and say what a GPU would hold: allocated, reserved, and the smallest capacity, by phase and by module; "
    "of a training also what the closed form of `size` says, and where the two differ by more than 3 %. It needs no "
    "GPU and computes nothing.",
)
@argument("card", metavar="CARD", help="A workload card.")
@option("--gpu", metavar="NAME|cpu", required=True, help="The GPU that the program is told it runs on, or cpu.")
@option("--steps", type=WholeNumber(1, MAX_STEPS), help="Updates of a training (2 unless given).")
@option("--settings", metavar="KEY:VALUE,...", help="Settings of the allocator, in place of the card's allocator.")
@option("--snapshot", metavar="FILE", help="Also write the trace as a file for PyTorch's memory viewer.")
@shown_as
def card_command(
    card: str,
    gpu: str,
    steps: int | None,
    settings: str | None,
    snapshot: str | None,
    form: str,
    as_json: bool,
) -> None:
    """Run `capienza.api.trace` and show the result."""
    from capienza.api.sizing import read_card
    from capienza.api.tracing import beside_closed_form, trace
    from capienza.cli.output import show, talking
    from capienza.report.traced import traced_data, traced_document

    read = read_card(card)
    with talking() as tell:
        found = trace(read, gpu, steps=steps or STEPS, settings=settings, snapshot=snapshot, progress=tell)
    beside = beside_closed_form(read, gpu, found)
    show(
        form,
        as_json,
        document=lambda say: traced_document(read.name, found, say, beside),
        data=lambda: traced_data(read.name, found, beside),
    )


@click.command(
    "replay",
    cls=Command,
    help="Replay a memory snapshot of a real card (torch.cuda.memory._dump_snapshot, or its JSON) through the model of "
    "PyTorch's caching allocator: where the two differ, what the program needs, and the smallest capacity with which "
    "it still runs. Nothing in the file is run.",
)
@argument("snapshot", metavar="SNAPSHOT", help="The file, pickle or JSON, plain or gzipped.")
@option(
    "--settings",
    metavar="KEY:VALUE,...",
    help="Try these settings on the same program, written as in PYTORCH_ALLOC_CONF: expandable_segments:True.",
)
@shown_as
def replay_command(snapshot: str, settings: str | None, form: str, as_json: bool) -> None:
    """Run `capienza.api.trace_replay` and show the result."""
    from capienza.api.replaying import trace_replay
    from capienza.cli.output import show
    from capienza.report.replay import replay_data, replay_document

    found = trace_replay(snapshot, settings)
    show(form, as_json, document=lambda say: replay_document(found, say), data=lambda: replay_data(found))
