"""The process that reads inputs: it does nothing else, so that its time and memory are those of reading.

It is told on stdin, one JSON line each, what stands in its folder, and answers with one line: the outcome, and whether
it ends because reading has left memory behind, so that the next input is measured from an idle start again.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from fuzzing.seeds import all_seeds, lay_out
from fuzzing.trial import Watch, command_lines, try_input

MAX_DRIFT_BYTES = 8 * 1024**2
READY = "ready"


def quiet() -> None:
    """Nothing of the caller's language, cache or network."""
    for name in ("CAPIENZA_LANG", "LANGUAGE", "LC_ALL", "LC_MESSAGES", "HF_ENDPOINT"):
        os.environ.pop(name, None)
    os.environ |= {"LANG": "C.UTF-8", "TERM": "dumb", "HF_HUB_OFFLINE": "1", "CAPIENZA_TRACEBACK": "1"}


def work(kind: str, folder: Path) -> None:
    """Run the sound inputs, so that every import is done; say so; then read what comes."""
    quiet()
    os.chdir(folder)
    answers = sys.stdout
    watch = Watch()
    for seed in all_seeds()[kind]:
        lay_out(seed.files, folder)
        for argv in command_lines(kind, seed.target):
            outcome = try_input(kind, seed.target, argv, watch)
            if outcome.verdict not in ("accepted", "slow"):
                sys.exit(f"the sound input {kind} {seed.name} is not accepted: {outcome.signature}\n{outcome.detail}")
    watch.settle()
    print(READY, file=answers, flush=True)
    for line in sys.stdin:
        target, argv = json.loads(line)
        outcome = try_input(kind, target, argv, watch)
        drifted = watch.drift_bytes > MAX_DRIFT_BYTES
        print(json.dumps([outcome, drifted]), file=answers, flush=True)
        if drifted:
            break
