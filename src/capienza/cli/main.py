"""The entry point: the table of commands, and how a call ends."""

from __future__ import annotations

import gc
import os
import sys
from typing import NoReturn

import click

from capienza import __version__
from capienza.cli.base import Option, Root, lang_option
from capienza.cli.streams import prepare_streams

COMMANDS = {
    "size": ("capienza.cli.size", "The memory ledger of a card or model, and its peaks."),
    "decide": ("capienza.cli.decide", "Verdicts and shortlist over offers, with what proves them."),
    "plan": ("capienza.cli.plan", "Cost and calendar: steps, finish, and the bill of each offer."),
    "limits": ("capienza.cli.limits", "The largest length, concurrency and microbatch that a GPU takes."),
    "measure": ("capienza.cli.measure", "Run a command, read its counters, and seal them as a record."),
    "diagnose": ("capienza.cli.diagnose", "Which phase of a run failed, from its log, and what explains it."),
    "alternatives": ("capienza.cli.alternatives", "Exactly one change each: what it does to every phase."),
    "trace": ("capienza.cli.trace", "A recording of a real card beside the model of PyTorch's allocator."),
    "validate": ("capienza.cli.validate", "The predictor against measured cases."),
    "calibrate": ("capienza.cli.calibrate", "Recompute the ceilings from measured cases."),
    "card": ("capienza.cli.card", "Write, check and document workload cards."),
    "offers": ("capienza.cli.offers", "List, check and convert files of offers."),
    "rules": ("capienza.cli.rules", "Which engine takes which format on which GPU, and where that is from."),
    "quality": ("capienza.cli.quality", "A frozen corpus, margins fixed before looking, and three answers."),
    "evidence": ("capienza.cli.evidence", "The records of a campaign: add, list, show, verify, export."),
    "doctor": ("capienza.cli.doctor", "What this machine is: its GPUs, driver, memory and packages."),
    "devices": ("capienza.cli.devices", "The GPUs of the catalogue, with every capacity known."),
}


@click.group(
    cls=Root,
    table=COMMANDS,
    help="Which GPU configuration can I adopt for this defined workload, at what total cost, and what proves it?",
)
@click.version_option(__version__, prog_name="capienza", cls=Option, help="Show the version and exit.")
@lang_option
def cli() -> None:
    """The program."""


def main() -> None:
    """Run the program and exit with the code of DESIGN section 5."""
    # A call only builds up until it ends and leaves no cycles; looking for some takes up to a third of its time.
    gc.disable()
    prepare_streams()
    try:
        code = _called()
        sys.stdout.flush()
    except BaseException as error:
        from capienza.cli.failure import fail

        code = fail(error, sys.argv[1:])
    sys.exit(code)


def _called() -> int:
    # Not cli.main(): it ends with 1, and without a word, when the reader of the answer goes away.
    try:
        with cli.make_context("capienza", sys.argv[1:]) as ctx:
            cli.invoke(ctx)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    return 0


def run() -> NoReturn:
    """`main` for the console script: the process ends at once, without taking apart what the system frees anyway."""
    import contextlib

    code = 1
    try:
        main()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else code
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # main() has said what could not be written
            stream.flush()
    os._exit(code)
