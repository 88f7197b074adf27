"""What every test may use: the real command line in this process, and the places of examples and shared data."""

from __future__ import annotations

import gc
import gettext
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import settings

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared"

settings.register_profile("ci", derandomize=True, deadline=None, database=None)
settings.load_profile("ci")


class Outcome(NamedTuple):
    """How a call of the command line ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def capienza(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Run the program as a shell would, with no language set around it."""
    from capienza.cli.main import main

    for name in ("CAPIENZA_LANG", "LC_ALL", "LC_MESSAGES", "LANG", "LANGUAGE"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: str | Path) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["capienza", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        gc.enable()
        os.environ.pop("LANGUAGE", None)  # set for click by a call in another language, like its text domain
        gettext.textdomain("messages")
        out, err = capsys.readouterr()
        return Outcome(int(stopped.value.code or 0), out, err)

    return run


@pytest.fixture
def examples() -> Path:
    """The folder of examples."""
    return ROOT / "examples"


@pytest.fixture
def shared() -> Path:
    """Public measured cases and data beside the project; tests that need them skip aloud without them."""
    if not SHARED.is_dir():
        pytest.skip("the folder of shared cases is not beside the project")
    return SHARED
