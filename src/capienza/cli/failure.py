"""How a call that did not work out ends: a sentence for people, one JSON shape for programs, an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from itertools import pairwise

import click

from capienza.canon import pretty
from capienza.cli.base import own, wanted_language
from capienza.cli.streams import drop_output, json_output
from capienza.errors import CapienzaError, InputErrors
from capienza.i18n.translator import Say, speaker
from capienza.report.plain import visible

OWN_FAULT, USAGE, UNREACHABLE, INTERRUPTED = 1, 2, 4, 130
ERROR_SCHEMA = "capienza.error/1"


def fail(error: BaseException, args: Sequence[str]) -> int:
    """Show the error and return the exit code. Our own faults are re-raised when CAPIENZA_TRACEBACK is set."""
    say, args = speaker(wanted_language(args)), own(args)
    wants_json = "--json" in args or "--format=json" in args or ("--format", "json") in pairwise(args)
    if isinstance(error, CapienzaError):
        return _known(error, say, wants_json)
    if isinstance(error, click.exceptions.Abort | KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, click.ClickException):
        return _usage(error, wants_json)
    if isinstance(error, BrokenPipeError):
        drop_output()
        return 0
    if isinstance(error, OSError):
        # Files have their own errors by name: what is left is an answer that cannot be written, in whatever form.
        _talk(say("the answer cannot be written: {reason}", reason=error.strerror or str(error)))
        return UNREACHABLE
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else OWN_FAULT
    if os.environ.get("CAPIENZA_TRACEBACK"):
        raise error
    return _own_fault(error, say, wants_json)


def _known(error: CapienzaError, say: Say, wants_json: bool) -> int:
    if wants_json:
        _print_json(error.as_dict())
        return error.exit_code
    problems = error.problems if isinstance(error, InputErrors) else (error,)
    for problem in problems:
        place = str(problem.place)
        text = say.message(problem.message)
        _talk(f"{place}: {text}" if place else text)
        hint = say.hint(problem.message)
        if hint:
            _talk(f"  {hint}")
    return error.exit_code


def _usage(error: click.ClickException, wants_json: bool) -> int:
    if wants_json:
        row = {"code": "usage", "message": error.format_message(), "where": "", "hint": "", "parameters": {}}
        _print_json([row])
    else:
        error.show()
    return USAGE


def _own_fault(error: BaseException, say: Say, wants_json: bool) -> int:
    message = say("internal error: {kind}: {text}", kind=type(error).__name__, text=str(error)[:200])
    hint = say("This is our fault. Set CAPIENZA_TRACEBACK=1, run it again, and report what it prints.")
    if wants_json:
        _print_json([{"code": "internal", "message": message, "where": "", "hint": hint, "parameters": {}}])
    else:
        _talk(message)
        _talk(f"  {hint}")
    return OWN_FAULT


def _print_json(rows: object) -> None:
    try:
        json_output().write(pretty({"schema": ERROR_SCHEMA, "ok": False, "errors": rows}) + "\n")
        sys.stdout.flush()
    except OSError as error:
        _talk(str(error))


def _talk(line: str) -> None:
    sys.stderr.write(visible(line) + "\n")
