"""The command line's surface is a frozen set: growing it is a deliberate act, with its documentation."""

import sys
from pathlib import Path

import click
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import texts  # noqa: E402 - a script of this project, not a package

COMMON = {"--format", "--json", "--lang", "--help"}
SURFACE = {
    "capienza": {"--version", "--lang", "--help"},
    "capienza size": {
        "SUBJECT", "--gpu", "--revision", "--tokens", "--concurrency", "--weights", "--explain",
        "--params", "--bits", "--reserve", *COMMON,
    },
    "capienza plan": {"CARD", "--offers", "--evidence", *COMMON},
    "capienza decide": {"CARDS", "--offers", "--evidence", "--out", "--why", "--keep", *COMMON},
    "capienza limits": {"CARD", "--gpu", "--gpus", *COMMON},
    "capienza measure": {"CARD", "COMMAND", "--stage", "--evidence", "--runs", "--plan", "--out", *COMMON},
    "capienza diagnose": {"LOG", *COMMON},
    "capienza alternatives": {"CARD", "--gpu", "--offer", "--offers", "--failed", "--evidence", *COMMON},
    "capienza trace": {"--lang", "--help"},
    "capienza trace card": {"CARD", "--gpu", "--steps", "--settings", "--snapshot", *COMMON},
    "capienza trace replay": {"SNAPSHOT", "--settings", *COMMON},
    "capienza validate": {"FILES", "--by", *COMMON},
    "capienza calibrate": {"FILES", "--lang", "--help"},
    "capienza card": {"--lang", "--help"},
    "capienza card new": {"MODEL", "--task", "--name", "--revision", "--engine", "--gpus", "--lang", "--help"},
    "capienza card check": {"CARD", *COMMON},
    "capienza card schema": {"--lang", "--help"},
    "capienza offers": {"--lang", "--help"},
    "capienza offers list": {"FILES", *COMMON},
    "capienza offers check": {"FILES", *COMMON},
    "capienza rules": {"--engine", "--version", "--gpu", "--weights", "--cache", *COMMON},
    "capienza offers import": {"FILE", "--out", "--from", "--provider", "--retrieved", "--fresh-for", *COMMON},
    "capienza evidence": {"--lang", "--help"},
    "capienza evidence add": {
        "FILE", "--evidence", "--kind", "--template", "--document", "--source", "--scope", "--claim", "--criterion",
        "--withdraw", "--input", "--author", "--reason", "--date", "--expires", *COMMON,
    },
    "capienza evidence list": {"--evidence", *COMMON},
    "capienza evidence show": {"RECORD", "--evidence", *COMMON},
    "capienza evidence verify": {"--evidence", "--card", "--offers", *COMMON},
    "capienza evidence export": {"--evidence", "--out", *COMMON},
    "capienza quality": {"--lang", "--help"},
    "capienza quality freeze": {"CARD", "--out", "--evidence", *COMMON},
    "capienza quality lint": {"CARD", "--corpus", *COMMON},
    "capienza quality run": {
        "PLAN", "TARGET", "--arm", "--out", "--corpus", "--model", "--concurrency", "--seconds", "--key-env", *COMMON,
    },
    "capienza quality compare": {
        "PLAN", "REFERENCE", "CANDIDATE", "--again", "--harmed", "--kl-log", "--figure", "--corpus", "--evidence",
        *COMMON,
    },
    "capienza doctor": {"--evidence", "--offer", "--provider", *COMMON},
    "capienza devices": {"NAME", *COMMON},
}  # fmt: skip


def surface():
    from capienza.cli.main import cli

    found = {}
    for name, command in texts.commands(cli):
        ctx = click.Context(command)
        found[name] = {
            (parameter.name or "").upper() if isinstance(parameter, click.Argument) else parameter.opts[-1]
            for parameter in command.get_params(ctx)
        }
    return found


def test_the_surface_is_the_frozen_set():
    assert surface() == SURFACE


def test_every_command_option_and_argument_has_help():
    from capienza.cli.main import cli

    for name, command in texts.commands(cli):
        assert command.help, name
        for parameter in command.params:
            assert getattr(parameter, "help", None), f"{name} {parameter.name}"


def test_short_helps_in_a_table_name_commands_that_exist():
    from capienza.cli.base import Group
    from capienza.cli.main import cli

    for name, command in texts.commands(cli):
        if isinstance(command, Group):
            assert set(command.table) == {child.split()[-1] for child in SURFACE if child.rpartition(" ")[0] == name}


LLAMA = ROOT / "examples" / "configs" / "meta-llama--Llama-3.1-8B"
FORBIDDEN_AT_START = (
    "torch", "transformers", "numpy", "pandas", "rich", "jinja2", "huggingface_hub", "httpx2", "asyncio",
)  # fmt: skip


@pytest.mark.parametrize(
    "arguments, also",
    [
        (["--help"], ("msgspec", "yaml", "decimal", "capienza.errors", "capienza.api")),
        (
            ["size", str(ROOT / "examples/configs/meta-llama--Llama-3.1-8B"), "--tokens", "9"],
            ("yaml", "capienza.catalog"),
        ),
        (["size", "--params", "7e9"], ("yaml", "capienza.catalog", "capienza.artifacts")),
    ],
)
def test_a_cold_start_loads_only_what_it_needs(arguments, also):
    import subprocess

    script = (
        "import sys\nsys.argv = ['capienza', *sys.argv[1:]]\nfrom capienza.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "sys.stderr.write(' '.join(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True)
    loaded = set(run.stderr.split())
    assert "capienza.cli.main" in loaded
    assert not loaded & {*FORBIDDEN_AT_START, *also}
