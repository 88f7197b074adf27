"""End to end with a real model: llama.cpp serves SmolLM2-135M in three files, from a card to a decision's record."""

from __future__ import annotations

import importlib.util
import json
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from capienza.quality.answers import read_answers

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / ".demo" / "SmolLM2-135M-Instruct.Q4_1.gguf"
EXAMPLE = ROOT / "examples" / "quality"
PROGRAM = [sys.executable, "-c", "from capienza.cli.main import run; run()"]
NEEDED = ("xllamacpp", "gguf", "httpx2")
FILES = {"reference": (), "candidate": ("--bits", "4"), "harmed": ("--bits", "2")}
MODEL_OF = {"reference": "reference", "reference_again": "reference", "candidate": "candidate", "harmed": "harmed"}
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not SOURCE.is_file(), reason="no small model here: scripts/fetch-models smollm2 gets it"),
    *(
        pytest.mark.skipif(importlib.util.find_spec(name) is None, reason=f"the package {name} is not installed")
        for name in NEEDED
    ),
]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    for name, options in FILES.items():
        command = [sys.executable, str(EXAMPLE / "requantise.py"), str(SOURCE), str(folder / f"{name}.gguf"), *options]
        subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.fixture
def campaign(models: Path, tmp_path: Path) -> Path:
    for name in ("card.yaml", "corpus.jsonl"):
        shutil.copy(EXAMPLE / name, tmp_path)
    for name in FILES:
        (tmp_path / f"{name}.gguf").symlink_to(models / f"{name}.gguf")
    return tmp_path


@contextmanager
def served(model: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A server of one file, on a port that was free a moment ago."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, str(EXAMPLE / "serve.py"), model.name, "--port", str(port)]
    with subprocess.Popen(
        command,
        cwd=model.parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        address = next(line.strip() for line in process.stdout if line.startswith("http"))
        try:
            yield f"{address}/v1", process
        finally:
            process.kill()


def _items(path: Path) -> Counter[str]:
    return Counter(json.loads(line)["item"] for line in path.read_text().splitlines()[1:])


def _answers(path: Path) -> dict[str, str]:
    rows = (json.loads(line) for line in path.read_text().splitlines()[1:])
    return {row["item"]: row["output"] for row in rows}


def test_reference_passes_itself_and_the_harmed_control_fails(capienza: Callable, campaign: Path) -> None:
    card, plan, evidence = campaign / "card.yaml", campaign / "quality-plan.json", campaign / "evidence"
    assert capienza("quality", "lint", card).code == 0
    assert capienza("quality", "freeze", card, "--evidence", evidence).code == 0
    template = json.loads(plan.read_text())["chat_template_sha256"]
    minutes = {}
    for arm, name in MODEL_OF.items():
        began = time.monotonic()
        with served(campaign / f"{name}.gguf") as (address, _):
            found = capienza("quality", "run", plan, "--arm", arm, "--json", "--", address)
        minutes[arm] = f"{(time.monotonic() - began) / 60:.1f}"
        ran = json.loads(found.out)
        assert (found.code, ran["answered"], ran["findings"]) == (0, 198, [])
    files = {arm: campaign / f"quality-plan.{arm}.jsonl" for arm in MODEL_OF}
    found = capienza(
        *("quality", "compare", plan, files["reference"], files["candidate"], "--evidence", evidence, "--json"),
        *("--again", files["reference_again"], "--harmed", files["harmed"]),
    )
    shown = json.loads(found.out)
    assert (shown["doubts"], shown["findings"]) == ([], [])
    said = {read_answers(str(file)).header.served for file in files.values()}
    assert {(each.models, each.chat_template_sha256) for each in said if each} == {
        ((f"{name}.gguf",), template) for name in FILES
    }
    states = {arm: [result["state"] for result in results] for arm, results in shown["controls"].items()}
    assert states == {"reference_again": ["satisfied"], "harmed": ["violated"]}
    # What the candidate comes to is the machine's business: kernels differ. That it comes to a verdict is ours.
    assert shown["words"]["exact_match"] in ("satisfied", "violated", "unknown")
    assert found.code == {"satisfied": 0, "violated": 12, "unknown": 10}[shown["words"]["exact_match"]]
    assert (evidence / f"{shown['record']}.json").is_file()
    sys.stdout.write(f"minutes with the server's start: {minutes}; {shown['words']}\n")


def test_killed_clients_and_a_killed_server_lose_nothing(capienza: Callable, campaign: Path) -> None:
    plan, out = campaign / "quality-plan.json", campaign / "quality-plan.reference.jsonl"
    assert capienza("quality", "freeze", campaign / "card.yaml", "--evidence", campaign / "evidence").code == 0
    command = [*PROGRAM, "quality", "run", str(plan), "--arm", "reference", "--"]

    def begun_until(count: int, address: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([*command, address], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        while process.poll() is None and (not out.exists() or out.read_bytes().count(b"\n") <= count):
            time.sleep(0.01)
        return process

    kills = sorted(random.Random(3).sample(range(5, 150), 3))
    with served(campaign / "reference.gguf") as (address, server):
        for count in kills:
            process = begun_until(count, address)
            process.send_signal(signal.SIGKILL)
            process.communicate()
        process = begun_until(170, address)
        server.kill()
        _, err = process.communicate()
        assert (process.returncode, err) == (4, b"")
    kept = out.read_bytes()
    with served(campaign / "reference.gguf") as (address, _):
        process = begun_until(198, address)
        process.communicate()
        assert process.returncode == 0
        again = capienza("quality", "run", plan, "--arm", "reference_again", "--", address)
        assert again.code == 0
    assert out.read_bytes().startswith(kept)
    assert set(_items(out).values()) == {1}
    assert len(_items(out)) == 198
    assert _answers(out) == _answers(campaign / "quality-plan.reference_again.jsonl")
