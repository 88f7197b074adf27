"""What a command line may not say: an option twice, an empty value, two forms of output. Loaded when a command runs."""

from __future__ import annotations

import click
from click.core import ParameterSource

from capienza.errors import UsageError, template

TWICE = template("usage.option-twice", "{option} is given more than once", "give it once")
EMPTY = template("usage.empty-value", "{option} is empty", "give a value, or leave it out")
TWO_FORMS = template("usage.two-forms", "--json contradicts --format {form}", "keep one of the two")


def refuse_repetition(given: list[click.Parameter]) -> None:
    """`given` are the parameters of a line, once for each time. Raises `UsageError`."""
    for param in given:
        if isinstance(param, click.Option) and not (param.multiple or param.is_flag) and given.count(param) > 1:
            raise UsageError(TWICE(option=param.opts[0]))


def refuse_contradictions(ctx: click.Context) -> None:
    """Raises `UsageError` for values that say nothing, or two things."""
    for param in ctx.command.params:
        value = ctx.params.get(param.name or "")
        if value == "" or (isinstance(value, tuple) and "" in value):
            name = param.opts[0] if isinstance(param, click.Option) else param.make_metavar(ctx)
            raise UsageError(EMPTY(option=name))
    form = ctx.params.get("form")
    is_written = ctx.get_parameter_source("form") is ParameterSource.COMMANDLINE
    if ctx.params.get("as_json") and is_written and form != "json":
        raise UsageError(TWO_FORMS(form=str(form)))
