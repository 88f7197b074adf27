"""Writes docs/reference from the code: commands, card fields, codes. `--check` only says whether it is up to date."""

from __future__ import annotations

import importlib
import sys

import click
from texts import ROOT, commands, module_names

REFERENCE = ROOT / "docs" / "reference"
HEAD = "<!-- Written by scripts/docs from the code; edits here are lost. -->\n\n"
COMMANDS_HEAD = """# Commands

Data goes to standard output, talk to standard error. Exit codes: see [exit codes](exit-codes.md).
"""
CODES_HEAD = """# Codes

Errors, reasons, notes and ways to settle carry a code and parameters; the sentence is made when it is shown. A code
keeps its meaning; its wording may change.

| code | text | what to do |
| --- | --- | --- |
"""
CARD_HEAD = """# The workload card

One YAML file. A field that is left out is *not stated*: the verdicts that need it stay *to confirm*. Written as `none`
(where accepted) it is *not applicable*.

| field | type | required | meaning | example |
| --- | --- | --- | --- | --- |
"""


def commands_page() -> str:
    """Every command with its help, as the terminal shows it."""
    from capienza.cli.main import cli

    shown = (
        f"## `{name}`\n\n```text\n{command.get_help(click.Context(command, info_name=name, terminal_width=100))}\n```\n"
        for name, command in commands(cli)
    )
    return HEAD + COMMANDS_HEAD + "\n" + "\n".join(shown)


def codes_page() -> str:
    """Every code that an error, a reason or a note can carry."""
    for name in module_names():
        importlib.import_module(name)
    from capienza.errors import TEMPLATES

    rows = (f"| `{code}` | {_cell(made.text)} | {_cell(made.hint)} |\n" for code, made in sorted(TEMPLATES.items()))
    return HEAD + CODES_HEAD + "".join(rows)


def card_page() -> str:
    """Every field of a workload card."""
    from capienza.card.fields import fields

    rows = (
        f"| `{field.path}` | {_cell(field.type_text)} | {'yes' if field.required else ''} | "
        f"{_cell(field.description)} | `{_cell(str(field.example))}` |\n"
        for field in fields()
    )
    return HEAD + CARD_HEAD + "".join(rows)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


PAGES = {"commands.md": commands_page, "codes.md": codes_page, "card.md": card_page}


def main(arguments: list[str]) -> int:
    """Write the pages, or with --check compare them."""
    stale = []
    for name, page in PAGES.items():
        path, text = REFERENCE / name, page()
        if "--check" in arguments:
            if not path.exists() or path.read_text() != text:
                stale.append(name)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    if stale:
        sys.stderr.write(f"out of date, run scripts/docs: {', '.join(stale)}\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
