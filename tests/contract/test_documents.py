"""Documentation, catalogue and licence are part of the build: each is compared with the code."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import reference  # noqa: E402 - a script of this project, not a package
import sessions  # noqa: E402
import texts  # noqa: E402


def test_the_reference_pages_are_those_of_the_code():
    for name, page in reference.PAGES.items():
        assert (reference.REFERENCE / name).read_text() == page(), f"run scripts/docs: {name}"


def test_italian_is_complete():
    assert texts.problems() == []


def test_the_floors_and_fences_hold():
    run = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-logo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout


def test_every_exit_code_of_the_errors_is_documented():
    from capienza import errors

    page = (ROOT / "docs" / "reference" / "exit-codes.md").read_text()
    codes = {kind.exit_code for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)}
    assert codes
    for code in codes:
        assert f"\n| {code} |" in page


def test_the_sessions_shown_are_those_of_today():
    for page in sessions.PAGES:
        assert sessions.refreshed(page) == (ROOT / page).read_text(), f"run scripts/docs: {page}"


def test_every_command_that_a_text_names_exists():
    from capienza.cli.main import cli

    names = {name for name, _ in texts.commands(cli)}
    said = [text for text in texts.all_texts() if "capienza " in text]
    for path in (ROOT / "docs").rglob("*.md"):
        said += re.findall(r"`(capienza [^`]*)`", path.read_text())
    assert said
    for text in said:
        for first, second in re.findall(r"(?:^|[`;:,] ?)capienza ([a-z]+)(?: ([a-z]+))?", text):
            group = f"capienza {first}"
            assert group in names, text
            if any(name.startswith(f"{group} ") for name in names) and second:
                assert f"{group} {second}" in names, text
