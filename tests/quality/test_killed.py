"""A run as a process of its own, killed in the middle: no answer is lost, and none stands in the file twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gate import plan_for, written_corpus

from capienza.api.qualifying import quality_run
from capienza.quality import endpoint
from capienza.quality.answers import read_answers
from capienza.quality.plan import write_plan

pytest.importorskip("httpx2")
ITEMS, CONCURRENCY = 60, 3
PROGRAM = [sys.executable, "-c", "from capienza.cli.main import run; run()"]
Stub = Callable[..., tuple[str, "subprocess.Popen[str]"]]


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    write_plan(plan_for(written_corpus(tmp_path, ITEMS)), path)
    return path


@pytest.fixture
def stub() -> Iterator[Stub]:
    started: list[subprocess.Popen[str]] = []

    def start(seconds: float, port: int = 0) -> tuple[str, subprocess.Popen[str]]:
        command = [sys.executable, str(Path(__file__).with_name("stub_server.py")), str(port), str(seconds)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        return f"http://127.0.0.1:{int(process.stdout.readline())}/v1", process

    yield start
    for process in started:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _begun(plan: Path, address: str, err: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
    command = [*PROGRAM, "quality", "run", str(plan), "--arm", "candidate", "--concurrency", str(CONCURRENCY)]
    environment = {name: value for name, value in os.environ.items() if name not in ("LC_ALL", "LANG", "LANGUAGE")}
    return subprocess.Popen(
        [*command, "--", address], stdout=subprocess.PIPE, stderr=err, env=environment | {"CAPIENZA_LANG": "en"}
    )


def _wait_for_lines(path: Path, count: int, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None and (not path.exists() or path.read_bytes().count(b"\n") <= count):
        time.sleep(0.005)


def _items(path: Path) -> Counter[str]:
    return Counter(json.loads(line)["item"] for line in path.read_text().splitlines()[1:])


def test_a_client_that_is_killed_again_and_again(plan: Path, tmp_path: Path, stub: Stub) -> None:
    address, server = stub(0.01)
    out, kills = tmp_path / "plan.candidate.jsonl", sorted(random.Random(8).sample(range(2, ITEMS - 10), 3))
    for count in kills:
        process = _begun(plan, address)
        _wait_for_lines(out, count, process)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
    kept = out.read_bytes().rpartition(b"\n")[0]
    process = _begun(plan, address)
    shown, err = process.communicate()
    assert (process.returncode, err) == (0, b"")
    assert b"were answered already and are not asked again" in shown
    assert out.read_bytes().startswith(kept)
    assert _items(out) == Counter(f"q{number}" for number in range(ITEMS))
    server.kill()
    answered = Counter(server.communicate()[0].splitlines())
    # Only what was under way when a client died is asked once more: nobody was there to hear its answer.
    assert ITEMS <= answered.total() <= ITEMS + CONCURRENCY * len(kills)


def test_a_server_that_is_killed_in_the_middle(
    plan: Path, tmp_path: Path, stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "PAUSE_SECONDS", 0.01)
    address, server = stub(0.01)

    def told(done: int, _count: int) -> None:
        if done == 20:
            server.kill()

    out = tmp_path / "plan.candidate.jsonl"
    first = quality_run(plan, "candidate", [address], concurrency=CONCURRENCY, told=told).collected
    answered = len(first.answers.by_item)
    assert 20 <= answered <= 20 + CONCURRENCY
    assert len(first.open_items) == ITEMS - answered
    assert {asked.failure.code for asked in first.failures if asked.failure} == {"quality.server-unreached"}
    before = out.read_bytes()
    again, _ = stub(0.0)
    second = quality_run(plan, "candidate", [again], concurrency=CONCURRENCY).collected
    assert not second.open_items
    assert out.read_bytes().startswith(before)
    assert _items(out) == Counter(f"q{number}" for number in range(ITEMS))


def test_an_interrupt_leaves_a_file_that_is_gone_on_with(plan: Path, tmp_path: Path, stub: Stub) -> None:
    address, _ = stub(0.05)
    out = tmp_path / "plan.candidate.jsonl"
    process = _begun(plan, address)
    _wait_for_lines(out, 5, process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert b"Traceback" not in err
    kept = read_answers(str(out)).by_item
    assert 5 <= len(kept) < ITEMS
    process = _begun(plan, address)
    _, err = process.communicate()
    assert (process.returncode, err) == (0, b"")
    assert _items(out) == Counter(f"q{number}" for number in range(ITEMS))


def test_a_terminal_sees_how_far_it_is(plan: Path, stub: Stub) -> None:
    address, _ = stub(0.1)
    near, far = os.openpty()
    process = _begun(plan, address, far)
    process.communicate()
    os.close(far)
    shown = os.read(near, 65536)
    os.close(near)
    assert process.returncode == 0
    assert f"/ {ITEMS} candidate".encode() in shown
    assert shown.endswith(b"\r\x1b[K")
