"""`capienza quality freeze|lint|run|compare`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from capienza.cli.base import Command, Group, argument, lang_option, option, shown_as
from capienza.cli.values import WholeNumber
from capienza.errors import InputError, template

HERE = "capienza.cli.quality"
ARMS = ("reference", "reference_again", "candidate", "harmed")
"""The arms of `quality.plan`, which the help need not load; a test compares the two."""
MET, OPEN_ITEMS, TO_CONFIRM, NOT_MET = 0, 4, 10, 12

NO_KEY = template(
    "quality.no-key", "the environment variable {name} is not set", "set it to the server's key, or leave --key-env out"
)

evidence_option = option(
    "--evidence", "folder", metavar="DIR", default="evidence", show_default=True, help="The folder of records."
)
corpus_option = option(
    "--corpus", metavar="FILE", help="The frozen corpus, where it does not lie as the plan has it from its folder."
)


@click.group(
    "quality",
    cls=Group,
    table={
        "freeze": (HERE, "The plan of a comparison, before any output exists."),
        "lint": (HERE, "What a corpus can show, and how many items a margin needs."),
        "run": (HERE, "Collect the answers of one arm, from a server or a command."),
        "compare": (HERE, "Satisfied, violated or unknown, with the figures."),
    },
    help="Are the outputs still good enough? A corpus is frozen with margins before anything is looked at, outputs are "
    "collected under that plan, and each metric is satisfied, violated or unknown.",
)
@lang_option
def quality_command() -> None:
    """The group."""


@click.command(
    "freeze",
    cls=Command,
    help="Fix all that a comparison rests on: corpus, arms, decoding, metrics with margins, error rate, controls. The "
    "plan is a file with the digest of its content as id, and a record of the folder. A plan is never replaced.",
)
@argument("card", metavar="CARD", help="A workload card with its quality.")
@option("--out", metavar="FILE", help="The plan; left out: quality-plan.json beside the card.")
@evidence_option
@shown_as
def freeze_command(card: str, out: str | None, folder: str, form: str, as_json: bool) -> None:
    """Run `capienza.api.quality_freeze` and show the result."""
    from capienza.api.qualifying import quality_freeze
    from capienza.cli.output import show
    from capienza.report.quality_plan import frozen_data, frozen_document

    found = quality_freeze(card, out, folder)
    show(form, as_json, document=lambda say: frozen_document(found, say), data=lambda: frozen_data(found))


@click.command(
    "lint",
    cls=Command,
    help="Say, before any GPU hour is spent, what the corpus of a card or of a frozen plan can show: the power of each "
    "metric at its margin, and the items that are needed. Exit code 10: it cannot conclude.",
)
@argument("card", metavar="CARD|PLAN", help="A workload card, or a frozen plan.")
@corpus_option
@shown_as
@click.pass_context
def lint_command(ctx: click.Context, card: str, corpus: str | None, form: str, as_json: bool) -> None:
    """Run `capienza.api.quality_lint` and show the result."""
    from capienza.api.qualifying import quality_lint
    from capienza.cli.output import show
    from capienza.report.quality_plan import lint_data, lint_document

    found = quality_lint(card, corpus)
    show(form, as_json, document=lambda say: lint_document(found, say), data=lambda: lint_data(found))
    ctx.exit(TO_CONFIRM if found.lint.problems else MET)


@click.command(
    "run",
    cls=Command,
    help="Ask every item of the plan, and keep each answer as it comes. Who answers is a server of the OpenAI protocol "
    "(its address up to /v1), or a command that reads and writes one JSON object a line. A run that was stopped goes "
    "on where it stopped. Exit code 4: items are still open.",
)
@argument("plan", metavar="PLAN", help="A frozen plan.")
@argument("target", metavar="-- ADDRESS|COMMAND...", nargs=-1, type=click.UNPROCESSED, help="What answers, after --.")
@option("--arm", type=click.Choice(ARMS), required=True, help="Which arm of the plan answers.")
@option("--out", metavar="FILE", help="The outputs; left out: PLAN.ARM.jsonl beside the plan.")
@corpus_option
@option("--model", metavar="NAME", default="default", show_default=True, help="The server's name for the model.")
@option("--concurrency", type=WholeNumber(1, 4096), default=1, show_default=True, help="Items under way at once.")
@option("--seconds", type=WholeNumber(1, 86400), default=600, show_default=True, help="The most one answer may take.")
@option("--key-env", metavar="NAME", help="The environment variable that holds the server's key.")
@shown_as
@click.pass_context
def run_command(
    ctx: click.Context,
    plan: str,
    target: tuple[str, ...],
    arm: str,
    out: str | None,
    corpus: str | None,
    model: str,
    concurrency: int,
    seconds: int,
    key_env: str | None,
    form: str,
    as_json: bool,
) -> None:
    """Run `capienza.api.quality_run` and show the result."""
    from capienza.api.qualifying import quality_run
    from capienza.cli.output import show, talking
    from capienza.report.quality_run import ran_data, ran_document

    key = os.environ.get(key_env) if key_env else None
    if key_env and not key:
        raise InputError(NO_KEY(name=key_env[:80]))
    with talking() as tell:
        found = quality_run(
            plan,
            arm,  # type: ignore[arg-type]
            target,
            out=out,
            corpus=corpus,
            model=model,
            concurrency=concurrency,
            seconds=seconds,
            key=key,
            told=tell and (lambda done, count: tell(done, f"/ {count}", arm)),
        )
    show(form, as_json, document=lambda say: ran_document(found, say), data=lambda: ran_data(found))
    ctx.exit(OPEN_ITEMS if found.collected.open_items else MET)


@click.command(
    "compare",
    cls=Command,
    help="Judge the candidate's outputs against the reference's under the plan: each metric is satisfied, violated or "
    "unknown, and all of it counts only where the controls behaved. The result becomes a record of the folder. Exit "
    "code 0: every metric is satisfied; 10: something is open; 12: a metric is violated.",
)
@argument("plan", metavar="PLAN", help="A frozen plan.")
@argument("reference", metavar="REFERENCE", help="The outputs of the reference: of quality run, or of lm_eval.")
@argument("candidate", metavar="CANDIDATE", help="The outputs of the candidate, likewise.")
@option("--again", metavar="FILE", help="The outputs of the reference, collected a second time.")
@option("--harmed", metavar="FILE", help="The outputs of the harmed control.")
@option(
    "--kl-log",
    metavar="FILE",
    help="What llama-perplexity --kl-divergence printed of the candidate: it may raise an alarm, and admits nothing.",
)
@option("--figure", metavar="FILE", help="Draw the intervals against their margins: FILE.svg, .png, .json, or .html.")
@corpus_option
@evidence_option
@shown_as
@click.pass_context
def compare_command(
    ctx: click.Context,
    plan: str,
    reference: str,
    candidate: str,
    again: str | None,
    harmed: str | None,
    kl_log: str | None,
    figure: str | None,
    corpus: str | None,
    folder: str,
    form: str,
    as_json: bool,
) -> None:
    """Run `capienza.api.quality_compare` and show the result."""
    from capienza.api.qualifying import quality_compare
    from capienza.cli.output import current_say, show
    from capienza.report.quality_result import compared_data, compared_document

    if figure:
        from capienza.report.quality_figure import prepare_figure, write_figure

        prepare_figure(Path(figure))
    found = quality_compare(
        plan,
        reference,
        candidate,
        reference_again=again,
        harmed=harmed,
        kl_log=kl_log,
        corpus=corpus,
        evidence=folder,
    )
    if figure:
        write_figure(found, Path(figure), current_say())
    show(form, as_json, document=lambda say: compared_document(found, say), data=lambda: compared_data(found))
    words = set(found.comparison.words.values())
    ctx.exit(NOT_MET if "violated" in words else TO_CONFIRM if words & {"unknown", "insufficient"} else MET)
