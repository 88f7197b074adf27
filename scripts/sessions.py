"""Keep the `console` blocks of the pages true: without `check`, run their commands and write what they print."""

from __future__ import annotations

import datetime
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"```console\n\$ ((?:capienza|python) [^\n]*)\n(.*?)```", re.DOTALL)
SHOWN_DAY = "2026-11-30"
"""What a page shows where a command prints the day it ran: else every page would be stale the day after."""
PAGES = (
    "README.md",
    "docs/tutorial/first-sizing.md",
    "docs/howto/alternatives.md",
    "docs/howto/diagnose.md",
    "docs/howto/engine-log.md",
    "docs/howto/limits.md",
    "docs/howto/own-cases.md",
    "docs/howto/rules.md",
)


def run(command: str) -> str:
    """Standard output of one command, run from the root as a shell would, then standard error."""
    import shlex

    program, *rest = shlex.split(command)
    arguments = [str(Path(sys.executable).parent / program), *rest]
    silent = {name: value for name, value in os.environ.items() if name not in {"CAPIENZA_LANG", "LC_ALL", "LANG"}}
    before = _today()
    done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, check=False, env=silent)
    return (done.stdout + done.stderr).replace(before, SHOWN_DAY).replace(_today(), SHOWN_DAY)


def _today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def refreshed(page: str) -> str:
    """The text of a page with every block's output as it is now."""
    text = (ROOT / page).read_text()
    return BLOCK.sub(lambda block: f"```console\n$ {block[1]}\n{run(block[1])}```", text)


def main(arguments: list[str]) -> int:
    """Update the pages or compare them."""
    stale = []
    for name in PAGES:
        now = refreshed(name)
        if now != (ROOT / name).read_text():
            stale.append(name)
            if "check" not in arguments:
                (ROOT / name).write_text(now)
    if "check" in arguments and stale:
        sys.stderr.write(f"the output shown is not that of today, run scripts/docs: {', '.join(stale)}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
