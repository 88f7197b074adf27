"""`capienza card new|check|schema`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from capienza.cli.base import Command, Group, argument, lang_option, option, shown_as
from capienza.cli.values import WholeNumber

HERE = "capienza.cli.card"


@click.group(
    "card",
    cls=Group,
    table={
        "new": (HERE, "Write a commented card for a model, ready to edit."),
        "check": (HERE, "Check a card and say every problem at once."),
        "schema": (HERE, "Print the JSON Schema of cards, for editors."),
    },
    help="Write, check and document workload cards.",
)
@lang_option
def card_command() -> None:
    """The group."""


@click.command(
    "new",
    cls=Command,
    help="Print a commented card for MODEL (a Hub id or a local path), ready to edit. Fields you did not give are "
    "there as comments.",
)
@argument("model", help="A Hub id or a local path.")
@option("--task", type=click.Choice(("inference", "fine-tuning")), default="inference", help="What the card is for.")
@option("--name", help="The name of the card.")
@option("--revision", metavar="REV", help="Branch, tag or commit of a Hub model.")
@option("--engine", metavar="NAME", help="The program that will run the model, such as vllm.")
@option("--gpus", type=WholeNumber(1, 1024), help="GPUs of one copy of the model.")
@lang_option
def new_command(
    model: str, task: str, name: str | None, revision: str | None, engine: str | None, gpus: int | None
) -> None:
    """Print a new card."""
    from capienza.api.cards import card_new
    from capienza.cli.output import current_say

    say = current_say()
    text = card_new(
        model,
        task="fine-tuning" if task == "fine-tuning" else "inference",
        name=name,
        revision=revision,
        engine=engine,
        gpus=gpus,
        translate=say,
    )
    sys.stdout.write(text)
    if "\n  path: " in text and not Path(model).expanduser().exists():
        click.echo(say("There is nothing at {path} yet.", path=model), err=True)


@click.command("check", cls=Command, help="Check the card and say every problem at once, with file, line and key.")
@argument("card", metavar="CARD", help="A workload card.")
@shown_as
def check_command(card: str, form: str, as_json: bool) -> None:
    """Check a card."""
    from capienza.api.cards import card_check, card_findings
    from capienza.api.recipes import card_recipe
    from capienza.cli.output import show
    from capienza.report.card import card_data, card_document

    read = card_check(card)
    recipe, told = card_recipe(read)
    findings = (*card_findings(read), *told)
    show(
        form,
        as_json,
        document=lambda say: card_document(read, findings, say, recipe),
        data=lambda: card_data(read, findings, recipe),
    )


@click.command("schema", cls=Command, help="Print the JSON Schema (2020-12) of cards.")
@lang_option
def schema_command() -> None:
    """Print the schema."""
    from capienza.api.cards import card_schema
    from capienza.canon import pretty
    from capienza.cli.streams import json_output

    json_output().write(pretty(card_schema()) + "\n")
