"""click, with help in the reader's language and commands that are imported only when they run."""

from __future__ import annotations

import copy
import importlib
import os
from collections.abc import Callable, Sequence
from typing import Any

import click

LANGUAGES = ("en", "it")
_META = "capienza.language"


def language(ctx: click.Context) -> str:
    """The language of this call."""
    return str(ctx.find_root().meta.get(_META, "en"))


def translate(ctx: click.Context, text: str) -> str:
    """A help text in the language of this call; English costs no import."""
    code = language(ctx)
    if code == "en":
        return text
    from capienza.i18n.translator import speaker

    return speaker(code)(text)


class Option(click.Option):
    """An option whose help is translated when it is shown."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        shown = copy.copy(self)
        shown.help = translate(ctx, self.help or "")
        return click.Option.get_help_record(shown, ctx)


class Argument(click.Argument):
    """An argument whose help is translated when it is shown."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:
        metavar, text = super().get_help_record(ctx)
        return metavar, translate(ctx, text)


class Command(click.Command):
    """A command whose help is translated when it is shown, and that drops nothing of its line in silence."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = self.make_parser(ctx).parse_args(list(args))[2]
        if len(set(given)) < len(given):
            from capienza.cli.line import refuse_repetition

            refuse_repetition(given)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        from capienza.cli.line import refuse_contradictions

        refuse_contradictions(ctx)
        return super().invoke(ctx)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(translate(ctx, self.help or ""))


class Group(click.Group):
    """Commands named in a table: name -> (module, short help). A module is imported when its command runs.

    The command `list` is the module's `list_command`.
    """

    def __init__(self, *args: Any, table: dict[str, tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.table:
            return None
        module = importlib.import_module(self.table[cmd_name][0])
        command = getattr(module, f"{cmd_name}_command")
        assert isinstance(command, click.Command)
        return command

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(translate(ctx, self.help or ""))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, translate(ctx, short)) for name, (_, short) in self.table.items()]
        with formatter.section(translate(ctx, "Commands")):
            formatter.write_dl(rows)


class Root(Group):
    """The program: finds the language before anything is shown, help included."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        code = wanted_language(args)
        if code != "en" or "LANGUAGE" in os.environ:
            from capienza.i18n.click_texts import speak_click

            speak_click(code)
        meta = {_META: code}
        self.context_class = _context_class(meta)
        return super().make_context(info_name, args, parent, **extra)


def _context_class(meta: dict[str, str]) -> type[click.Context]:
    class LanguageContext(click.Context):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.meta.update(meta)

    return LanguageContext


def own(args: Sequence[str]) -> Sequence[str]:
    """The words of a line up to `--`: those behind it are of the command that is run."""
    return args[: args.index("--")] if "--" in args else args


def wanted_language(args: Sequence[str]) -> str:
    """The language that `--lang` names anywhere on the line, else that of the environment.

    A value that is not a language is left for click to refuse.
    """
    args = own(args)
    for index, arg in enumerate(args):
        value = arg.partition("=")[2] if arg.startswith("--lang=") else None
        if arg == "--lang" and index + 1 < len(args):
            value = args[index + 1]
        if value in LANGUAGES:
            return value
    if not any(os.environ.get(name) for name in ("CAPIENZA_LANG", "LC_ALL", "LC_MESSAGES", "LANG")):
        return "en"
    from capienza.i18n.language import choose_language

    return choose_language(None, os.environ)


def option(*names: str, **attributes: Any) -> Callable[[Any], Any]:
    """A translated option."""
    return click.option(*names, cls=Option, **attributes)


def argument(name: str, **attributes: Any) -> Callable[[Any], Any]:
    """A translated argument."""
    return click.argument(name, cls=Argument, **attributes)


def lang_option(command: Any) -> Any:
    """`--lang` and `--help`, on every command.

    The language is read by `wanted_language` before parsing; it is declared here so that it is checked and shown. The
    help option is our own because click's keeps the language in which it was first shown.
    """
    command = click.help_option("-h", "--help", cls=Option, help="Show this message and exit.")(command)
    return option(
        "--lang", type=click.Choice(LANGUAGES), expose_value=False, help="Language of texts and numbers for people."
    )(command)


def shown_as(command: Any) -> Any:
    """`--format`, its short form `--json`, and `--lang`: on every command that shows a result."""
    command = option("--json", "as_json", is_flag=True, help="The same as --format json: one document on stdout.")(
        lang_option(command)
    )
    return format_option(command)


def format_option(command: Any) -> Any:
    """`--format` alone."""
    return option(
        "--format",
        "form",
        type=click.Choice(("human", "json", "md")),
        default="human",
        help="For people, as one JSON document, or as Markdown.",
    )(command)
