"""The process that runs inputs one after the other and tells, one JSON line each, what became of them.

It stops early when memory has crept up, so that the next inputs are measured from an idle start again.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

from fuzzing.mutate import Case, make_case
from fuzzing.seeds import Seed, all_seeds
from fuzzing.trial import FORMS, Outcome, Watch, try_case

MAX_DRIFT_BYTES = 16 * 1024**2
FACE_EVERY = 3
"""One input of so many goes through the command line as well, each in another form."""


def prepare() -> Path:
    """A quiet process: nothing of the caller's language, cache or network; returns the folder to work in."""
    for name in ("CAPIENZA_LANG", "LANGUAGE", "LC_ALL", "LC_MESSAGES", "HF_ENDPOINT"):
        os.environ.pop(name, None)
    os.environ |= {"LANG": "C.UTF-8", "TERM": "dumb", "HF_HUB_OFFLINE": "1", "CAPIENZA_TRACEBACK": "1"}
    return Path(tempfile.mkdtemp(prefix="capienza-fuzz-"))


def form_of(number: int) -> list[str] | None:
    return FORMS[number // FACE_EVERY % len(FORMS)] if number % FACE_EVERY == 0 else None


def whole(seed: Seed) -> Case:
    """A sound input, undamaged."""
    return Case(seed.kind, seed.name, seed.files, seed.target)


def warm_up(seeds: list[Seed], folder: Path, watch: Watch) -> None:
    """Run the sound inputs, so that every import is done. Raises `SystemExit` when one is not accepted."""
    for seed in seeds:
        for form in FORMS:
            outcome = try_case(whole(seed), folder, watch, form)
            if outcome.verdict not in ("accepted", "slow"):
                sys.exit(f"the sound input {seed.kind} {seed.name} is not accepted: {outcome.signature}\n{outcome.detail}")
    watch.settle()


def work(kind: str, campaign_seed: int, start: int, stop: int) -> None:
    """Run the inputs `start` to `stop` - 1."""
    folder = prepare()
    telling = sys.stdout
    try:
        watch = Watch()
        seeds = all_seeds()[kind]
        warm_up(seeds, folder, watch)
        for number in range(start, stop):
            case = make_case(seeds, campaign_seed, number)
            _tell(telling, number, try_case(case, folder, watch, form_of(number)))
            if watch.drift_bytes > MAX_DRIFT_BYTES:
                break
    finally:
        os.chdir("/")
        shutil.rmtree(folder)


def _tell(telling: object, number: int, outcome: Outcome) -> None:
    print(json.dumps([number, *outcome]), file=telling, flush=True)  # type: ignore[call-overload]
