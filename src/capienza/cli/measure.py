"""`capienza measure`."""

from __future__ import annotations

import contextlib
import gc
import sys
from typing import Any, NoReturn

import click

from capienza.cli.base import Command, argument, format_option, lang_option, option
from capienza.errors import CapienzaError, UsageError, template

STAGES = ("short", "usual", "required")
NOT_STARTED, NOT_FOUND = 125, 127
NOT_OURS = template(
    "measure.option-not-ours",
    "{option} is no option of capienza measure",
    "put -- before the command: capienza measure CARD -- COMMAND...",
)


class Wrapper(Command):
    """A command whose own failures before the start end with 125: every other code is that of what it runs."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        has_dashes = "--" in args  # the parser takes the words away
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            ours = UsageError(NOT_OURS(option=error.option_name[:60]))
            _end(error if has_dashes else ours, NOT_STARTED)
        except (click.UsageError, CapienzaError) as error:
            _end(error, NOT_STARTED)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except CapienzaError as error:
            from capienza.measure.run import CommandNotFoundError

            _end(error, NOT_FOUND if isinstance(error, CommandNotFoundError) else NOT_STARTED)


@click.command(
    "measure",
    cls=Wrapper,
    help="Run COMMAND as it is, read the counters of its GPUs and of its processes ten times a second while it works, "
    "and seal what was really executed and what it took as a record. Its output and its exit code are passed on: "
    "stdout is COMMAND's alone, and the summary goes to standard error, behind what COMMAND writes there; --out puts "
    "the document into a file of its own. 125: it could not be started, 127: there is no such command.",
)
@argument("card", metavar="CARD", help="The workload card that the run is of.")
@argument(
    "command", metavar="-- COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED, help="What to run, after --."
)
@option(
    "--stage",
    type=click.Choice(STAGES),
    default="required",
    show_default=True,
    help="Which length of the card's tokens it runs.",
)
@option(
    "--evidence", metavar="DIR", default="evidence", show_default=True, help="The folder that the record goes into."
)
@option("--runs", metavar="DIR", default="runs", show_default=True, help="Where the folder of the run is made.")
@option("--plan", metavar="ID", help="The plan that announced the run: its id, or the first digits.")
@option("--out", metavar="FILE", help="Also write the summary into FILE, as the JSON document, once COMMAND has ended.")
@format_option
@option(
    "--json",
    "as_json",
    is_flag=True,
    help="The same as --format json: one document on standard error, since stdout is COMMAND's.",
)
@lang_option
@click.pass_context
def measure_command(
    ctx: click.Context,
    card: str,
    command: tuple[str, ...],
    stage: Any,
    evidence: str,
    runs: str,
    plan: str | None,
    out: str | None,
    form: str,
    as_json: bool,
) -> None:
    """Run `capienza.api.measure` and show the summary on standard error."""
    from capienza.api.measuring import measure
    from capienza.i18n.click_texts import leave_language

    leave_language()
    gc.enable()  # a run lasts; main() leaves it off for calls that do not
    ended: list[int] = []
    try:
        found = measure(card, command, stage, evidence=evidence, runs=runs, plan=plan, out=out, ended=ended.append)
        _show(found, form, as_json)
    except CapienzaError:
        raise
    except Exception as error:
        _end(error, ended[0] if ended else NOT_STARTED)
    ctx.exit(found.run.exit_code)


def _show(found: Any, form: str, as_json: bool) -> None:
    from capienza.cli.output import show
    from capienza.report.measure import measure_document
    from capienza.report.measure_data import measure_data

    # Whoever read standard error may have gone away; the command's own code matters more.
    with contextlib.suppress(OSError), contextlib.redirect_stdout(sys.stderr):
        show(form, as_json, document=lambda say: measure_document(found, say), data=lambda: measure_data(found))
        sys.stderr.flush()


def _end(error: BaseException, code: int) -> NoReturn:
    """Say what is wrong as every command does, with the code of a wrapper."""
    from capienza.cli.failure import fail

    with contextlib.suppress(OSError), contextlib.redirect_stdout(sys.stderr):
        fail(error, sys.argv[1:])
    raise click.exceptions.Exit(code)
