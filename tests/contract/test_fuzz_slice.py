"""A small slice of the fuzz campaign of bench/: damaged inputs end in an answer or in one of our errors."""

from __future__ import annotations

import collections
import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).parents[2] / "bench"
INPUTS = 40
SEED = 7


@pytest.fixture(scope="module")
def fuzzing() -> Any:
    """The campaign's modules, by name."""
    sys.path.insert(0, str(BENCH))
    yield lambda name: importlib.import_module(f"fuzzing.{name}")
    sys.path.remove(str(BENCH))


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
@pytest.mark.parametrize("kind", ["safetensors", "gguf", "config", "card", "offers"])
def test_damaged_inputs_are_answered_or_refused(fuzzing: Any, kind: str) -> None:
    seeds = fuzzing("seeds").all_seeds()[kind]
    found: collections.Counter[str] = collections.Counter()
    with fuzzing("runner").Runner(kind) as runner:
        for number in range(INPUTS):
            case = fuzzing("mutate").make_case(seeds, SEED, number)
            lines = fuzzing("trial").command_lines(kind, case.target)
            argv = None if number % 3 else lines[number // 3 % len(lines)]
            outcome = runner.try_case(case, argv)
            assert not outcome.failed, f"{kind} {number}, {argv}: {outcome.signature}\n{outcome.detail}"
            found[outcome.signature] += 1
    # All refused for one reason would mean that nothing behind the first check was reached.
    assert found["accepted "] >= 1, found
    assert len(found) >= 5, found


def test_inputs_are_a_function_of_seed_and_number(fuzzing: Any) -> None:
    for seeds in fuzzing("seeds").all_seeds().values():
        make = fuzzing("mutate").make_case
        assert make(seeds, 1, 3) == make(seeds, 1, 3)
        assert any(make(seeds, 1, number).data != make(seeds, 2, number).data for number in range(5))


@pytest.mark.parametrize(
    ("code", "argv", "stdout", "stderr", "verdict"),
    [
        (0, [], "fine", "", "accepted"),
        (3, ["--json"], "{}", "", "refused"),
        (1, [], "", "internal error: KeyError", "exit"),
        (3, [], "", "Traceback (most recent call last)", "exit"),
        (0, [], "a\x1b[31m", "", "output"),
        (3, [], "", "name \u202egnp.exe", "output"),
        (3, ["--json"], "{", "", "output"),
    ],
)
def test_a_bad_ending_is_noticed(
    fuzzing: Any, code: int, argv: list[str], stdout: str, stderr: str, verdict: str
) -> None:
    assert fuzzing("trial").judge_output(code, argv, stdout, stderr).verdict == verdict
