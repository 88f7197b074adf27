"""Every English text that a user can see, gathered from the code: what the Italian catalogue has to cover.

`python scripts/texts.py update` writes the missing ones into the .po file, `compile` makes the .mo file from it,
`check` says what is missing, left over or badly translated.
"""

from __future__ import annotations

import ast
import datetime
import importlib
import io
import pkgutil
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click
from babel.messages import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

import capienza

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "capienza"
CATALOGUE = SOURCE / "i18n" / "locales" / "it" / "LC_MESSAGES" / "capienza.po"
COMPILED = CATALOGUE.with_suffix(".mo")
CALLS = {"say", "mark", "phrase", "translate"}
# What click says by itself in calls that our commands can meet.
CLICK_TEXTS = (
    "Usage:",
    "Options",
    "Commands",
    "Positional arguments",
    "Show this message and exit.",
    "Show the version and exit.",
    "%(prog)s, version %(version)s",
    "Try '{command} {option}' for help.",
    "Error: {message}",
    "Missing argument",
    "Missing option",
    "Missing command.",
    "Missing {param_type}",
    "No such option {name!r}.",
    "No such command {name!r}.",
    "Option {name!r} does not take a value.",
    "Invalid value for {param_hint}: {message}",
    "Invalid value: {message}",
    "{value!r} is not a valid {number_type}.",
    "{value} is not in the range {range}.",
    "default: {default}",
    "required",
    "Aborted!",
)

# The same where the sentence depends on a number: (singular, plural).
CLICK_PLURALS = (
    ("Got unexpected extra argument ({args})", "Got unexpected extra arguments ({args})"),
    ("Did you mean {possibility}?", "(Did you mean one of: {possibilities}?)"),
    ("Option {name!r} requires an argument.", "Option {name!r} requires {nargs} arguments."),
    ("{value!r} is not {choice}.", "{value!r} is not one of {choices}."),
    ("Takes {nargs} values but 1 was given.", "Takes {nargs} values but {len} were given."),
)


def all_texts() -> set[str]:
    """Templates and hints, marked literals, command-line help, card fields, and click's own sentences."""
    texts = set(CLICK_TEXTS) | {text for pair in CLICK_PLURALS for text in pair}
    for name in module_names():
        importlib.import_module(name)
    from capienza.errors import TEMPLATES

    for template in TEMPLATES.values():
        texts |= {template.text, template.hint}
    for path in SOURCE.rglob("*.py"):
        texts |= set(marked_literals(path))
    texts |= set(command_texts())
    texts |= set(card_texts())
    texts |= set(habit_texts())
    return texts - {""}


def module_names() -> Iterator[str]:
    """Every module of the package."""
    yield from (info.name for info in pkgutil.walk_packages(capienza.__path__, "capienza."))


def marked_literals(path: Path) -> Iterator[str]:
    """The literal first arguments of `say(...)`, `mark(...)` and their like in one file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not (isinstance(node, ast.Call) and node.args):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        first = node.args[-1] if name == "translate" else node.args[0]
        if name in CALLS and isinstance(first, ast.Constant) and isinstance(first.value, str):
            yield first.value


def commands(group: click.Command, name: str = "capienza") -> Iterator[tuple[str, click.Command]]:
    """Every command with its full name."""
    yield name, group
    if isinstance(group, click.Group):
        ctx = click.Context(group)
        for child in group.list_commands(ctx):
            command = group.get_command(ctx, child)
            assert command is not None
            yield from commands(command, f"{name} {child}")


def command_texts() -> Iterator[str]:
    """Help of every command, option and argument."""
    from capienza.cli.base import Group
    from capienza.cli.main import cli

    for _, command in commands(cli):
        yield command.help or ""
        if isinstance(command, Group):
            yield from (short for _, short in command.table.values())
        for parameter in command.params:
            yield getattr(parameter, "help", None) or ""


def card_texts() -> Iterator[str]:
    """Descriptions of the fields of cards and forms, as their templates and the reference write them."""
    from capienza.card.fields import fields
    from capienza.records.fields import FIELDS

    yield from (field.description for field in (*fields(), *FIELDS))


def habit_texts() -> Iterator[str]:
    """What the sources of frameworks' defaults say in words."""
    from capienza.recipe.habits.lookup import layers, sources_in_words

    for layer in layers().values():
        yield from sources_in_words(layer)


def placeholders(text: str) -> list[str]:
    """The `{names}` and `%(names)s` of a text."""
    return sorted(re.findall(r"(?<!\{)\{[^{}]*\}(?!\})|%\([a-z]+\)s", text))


def load() -> Catalog:
    """The Italian catalogue."""
    with CATALOGUE.open("rb") as file:
        return read_po(file, locale="it", domain="capienza")


def translations(catalogue: Catalog) -> dict[str, str]:
    """English to Italian; singular and plural are two texts."""
    found = {}
    for message in catalogue:
        if isinstance(message.id, tuple):
            singular, plural = message.id
            found[singular], found[plural] = message.string[0], message.string[-1]
        elif message.id:
            found[message.id] = str(message.string)
    return found


def problems() -> list[str]:
    """What is missing, left over, fuzzy, or has other placeholders than the English text."""
    catalogue = load()
    texts = all_texts()
    found = []
    known = translations(catalogue)
    found += [f"missing: {text!r}" for text in sorted(texts - set(known))]
    found += [f"left over: {text!r}" for text in sorted(set(known) - texts)]
    found += [f"not sure: {message.id!r}" for message in catalogue if message.id and message.fuzzy]
    for text, italian in known.items():
        if not italian:
            found.append(f"not translated: {text!r}")
        elif placeholders(text) != placeholders(italian):
            found.append(f"other placeholders: {text!r} -> {italian!r}")
    if not COMPILED.exists() or COMPILED.read_bytes() != compiled(catalogue):
        found.append("the .mo file is not that of the .po file: run scripts/i18n")
    return found


def compiled(catalogue: Catalog) -> bytes:
    """The bytes of the .mo file."""
    buffer = io.BytesIO()
    write_mo(buffer, catalogue)
    return buffer.getvalue()


def update(extra: dict[str, str]) -> None:
    """Add missing texts (translated by `extra` where it knows them) and drop the ones no longer used."""
    italian = (translations(load()) if CATALOGUE.exists() else {}) | extra
    fresh = Catalog(locale="it", domain="capienza", project="capienza", header_comment="# Italian texts of Capienza.")
    # No clock: the same texts give the same file.
    fresh.creation_date = fresh.revision_date = datetime.datetime(2026, 11, 30, tzinfo=datetime.UTC)
    for text in sorted(all_texts() - {text for pair in CLICK_PLURALS for text in pair}):
        fresh.add(text, italian.get(text, ""))
    for pair in CLICK_PLURALS:
        singular, plural = (italian.get(text, "") for text in pair)
        # Italian has a form of its own for millions; it is the plural here.
        fresh.add(pair, (singular, *[plural] * (fresh.num_plurals - 1)))
    CATALOGUE.parent.mkdir(parents=True, exist_ok=True)
    with CATALOGUE.open("wb") as file:
        write_po(file, fresh, width=120, omit_header=False, sort_output=True)
    COMPILED.write_bytes(compiled(load()))


def main(arguments: list[str]) -> int:
    """Run one of update, compile, check."""
    match arguments:
        case ["update", *files]:
            import json

            extra: dict[str, str] = {}
            for name in files:
                extra |= json.loads(Path(name).read_text())
            update(extra)
        case ["compile"]:
            COMPILED.write_bytes(compiled(load()))
        case ["check"]:
            pass
        case _:
            sys.stderr.write(f"{__doc__}\n")
            return 2
    found = problems()
    sys.stdout.write("".join(f"{line}\n" for line in found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
