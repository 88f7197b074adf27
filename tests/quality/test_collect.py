"""Collecting answers: nothing lost, nothing asked twice, whatever the other side does."""

from __future__ import annotations

import contextlib
import http.server
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from gate import NOW, plan_for, written_corpus

from capienza.errors import CapienzaError, InputErrors
from capienza.quality import endpoint
from capienza.quality.answers import Answer, Header, mend_end, read_answers
from capienza.quality.collect import Asked, Collected, collect
from capienza.quality.command import ask_command
from capienza.quality.corpus import Corpus, Item
from capienza.quality.endpoint import Server, ask_server, check_address
from capienza.quality.plan import QualityPlan, seed_of


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return written_corpus(tmp_path, 12)


@pytest.fixture
def plan(corpus: Corpus) -> QualityPlan:
    return plan_for(corpus)


def _header(plan: QualityPlan, arm: str = "candidate") -> Header:
    return Header(plan=plan.id, arm=arm, target="test", date=NOW)  # type: ignore[arg-type]


def _right(items: list[Item]) -> Iterator[Asked]:
    for item in items:
        yield Asked(item.id, Answer(item=item.id, output="1"))


def test_a_run_that_is_killed_goes_on_without_repeating_or_losing(
    corpus: Corpus, plan: QualityPlan, tmp_path: Path
) -> None:
    path, asked = tmp_path / "out.jsonl", []

    def dies(items: list[Item]) -> Iterator[Asked]:
        for number, item in enumerate(items):
            asked.append(item.id)
            if number == 5:
                raise KeyboardInterrupt
            yield Asked(item.id, Answer(item=item.id, output="1"))

    with pytest.raises(KeyboardInterrupt):
        collect(corpus, _header(plan), path, dies)  # type: ignore[arg-type]
    with path.open("ab") as file:
        file.write(b'{"item": "q5", "outp')
    found = collect(corpus, _header(plan), path, lambda items: _right(_noted(items, asked)))
    assert not found.open_items
    assert [finding.code for finding in found.findings] == ["quality.line-cut-off", "quality.goes-on"]
    assert sorted(asked) == sorted([item.id for item in corpus.items] + ["q5"])
    assert list(read_answers(str(path)).by_item) == [item.id for item in corpus.items]


def _noted(items: object, asked: list[str]) -> list[Item]:
    kept = list(items)  # type: ignore[call-overload]
    asked += [item.id for item in kept]
    return kept


def test_two_runs_never_write_one_file(corpus: Corpus, plan: QualityPlan, tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"

    def nested(items: list[Item]) -> Iterator[Asked]:
        with pytest.raises(CapienzaError) as caught:
            collect(corpus, _header(plan), path, _right)  # type: ignore[arg-type]
        assert caught.value.message.code == "quality.outputs-in-use"
        yield from _right(items)

    assert not collect(corpus, _header(plan), path, nested).open_items  # type: ignore[arg-type]


def test_outputs_of_two_arms_never_share_a_file(corpus: Corpus, plan: QualityPlan, tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    collect(corpus, _header(plan), path, _right)  # type: ignore[arg-type]
    before = path.read_bytes()
    with pytest.raises(CapienzaError) as caught:
        collect(corpus, _header(plan, "harmed"), path, _right)  # type: ignore[arg-type]
    assert caught.value.message.code == "quality.outputs-of-another-run"
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "line, code",
    [
        ('{"item": "q1", "output": "1"}', "quality.answered-twice"),
        ('{"item": 7}', "quality.not-an-answer"),
        ('{"output": "1"}', "quality.not-an-answer"),
        ('{"item": "q3", "logprob": "high"}', "quality.not-an-answer"),
        ('{"item": "q3", "logprob": NaN}', "jsonlines.not-json"),
        ('{"item": "q3", "logprob": 1e999}', "jsonlines.not-json"),
        ('{"item": "q3"', "jsonlines.not-json"),
    ],
)
def test_a_line_that_is_no_answer_is_named(
    corpus: Corpus, plan: QualityPlan, tmp_path: Path, line: str, code: str
) -> None:
    path = tmp_path / "out.jsonl"
    collect(corpus, _header(plan), path, lambda items: _right(list(items)[:3]))
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(CapienzaError) as caught:
        read_answers(str(path))
    assert (caught.value.message.code, caught.value.place.line) == (code, 5)


def test_outputs_without_a_header(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    for content in (
        "",
        '{"item": "a", "output": "1"}\n',
        '{"plan": "x", "arm": "other", "target": "t", "date": "2026-11-30T00:00:00Z"}\n',
    ):
        path.write_text(content)
        with pytest.raises(CapienzaError) as caught:
            read_answers(str(path))
        assert caught.value.message.code == "quality.outputs-without-header"


@pytest.mark.parametrize("tail", [b"", b"x", b"x" * 3_000_000])
def test_only_a_line_without_its_end_is_cut_off(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "out.jsonl"
    whole = b'{"schema":"capienza.quality-outputs/1","plan":"p"}\ntwo\n'
    path.write_bytes(whole + tail)
    assert mend_end(path) == len(tail)
    assert path.read_bytes() == whole


def test_the_seed_is_the_plans_and_the_items() -> None:
    seeds = {seed_of("a", "q1"), seed_of("a", "q2"), seed_of("b", "q1")}
    assert len(seeds) == 3
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert seed_of("a", "q1") == seed_of("a", "q1")


# A command


def _command(tmp_path: Path, body: str) -> list[str]:
    script = tmp_path / "answer.py"
    script.write_text(f"import json, sys, time\n{body}\n")
    return [sys.executable, str(script)]


ECHO = """
for line in sys.stdin:
    asked = json.loads(line)
    print(json.dumps({"item": asked["item"], "output": asked["prompt"], "finish_reason": "stop"}), flush=True)
"""


def _by_command(corpus: Corpus, plan: QualityPlan, tmp_path: Path, body: str, seconds: float = 30) -> Collected:
    command = _command(tmp_path, body)
    return collect(
        corpus, _header(plan), tmp_path / "out.jsonl", lambda items: ask_command(plan, command, items, 3, seconds)
    )


def test_a_command_answers_every_item(corpus: Corpus, plan: QualityPlan, tmp_path: Path) -> None:
    found = _by_command(corpus, plan, tmp_path, ECHO)
    assert not found.open_items
    assert found.answers.by_item["q4"].output == "4 + 1 ="


def test_a_command_that_dies_leaves_the_rest_open(corpus: Corpus, plan: QualityPlan, tmp_path: Path) -> None:
    found = _by_command(
        corpus, plan, tmp_path, ECHO.replace("    asked =", "    if 'q5' in line: sys.exit(3)\n    asked =")
    )
    assert found.open_items
    assert {asked.failure.code for asked in found.failures if asked.failure} == {"quality.command-ended"}
    assert len(found.answers.by_item) + len(found.open_items) == 12
    again = _by_command(corpus, plan, tmp_path, ECHO)
    assert not again.open_items


def test_a_command_that_falls_silent_is_stopped(corpus: Corpus, plan: QualityPlan, tmp_path: Path) -> None:
    found = _by_command(corpus, plan, tmp_path, "sys.stdin.readline(); time.sleep(60)", seconds=0.5)
    assert {asked.failure.code for asked in found.failures if asked.failure} == {"quality.command-silent"}
    assert len(found.open_items) == 12


@pytest.mark.parametrize(
    "body, code",
    [
        ("print('Loading...', flush=True); sys.stdin.read()", "jsonlines.not-json"),
        ('print(\'{"item": "zz", "output": "1"}\', flush=True); sys.stdin.read()', "quality.command-not-asked"),
        ('print(\'{"item": "q0", "logprob": []}\', flush=True); sys.stdin.read()', "quality.not-an-answer"),
    ],
)
def test_a_command_that_writes_something_else_is_named(
    corpus: Corpus, plan: QualityPlan, tmp_path: Path, body: str, code: str
) -> None:
    with pytest.raises(CapienzaError) as caught:
        _by_command(corpus, plan, tmp_path, body)
    assert caught.value.message.code == code
    assert caught.value.place.line == 1


def test_a_command_that_is_not_there(corpus: Corpus, plan: QualityPlan, tmp_path: Path) -> None:
    with pytest.raises(CapienzaError) as caught:
        collect(
            corpus, _header(plan), tmp_path / "o", lambda items: ask_command(plan, ["/nowhere/at-all"], items, 1, 5)
        )
    assert caught.value.message.code == "quality.command-not-started"


# A server

Reply = Callable[[http.server.BaseHTTPRequestHandler, dict, int], None]


def _good(handler: http.server.BaseHTTPRequestHandler, asked: dict, _count: int) -> None:
    _send(
        handler, 200, {"choices": [{"text": asked["prompt"], "finish_reason": "stop"}], "usage": {"prompt_tokens": 4}}
    )


def _send(handler: http.server.BaseHTTPRequestHandler, status: int, value: object) -> None:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Reply], tuple[str, list[dict]]]]:
    pytest.importorskip("httpx2")
    monkeypatch.setattr(endpoint, "PAUSE_SECONDS", 0.01)
    servers = []

    def start(reply: Reply) -> tuple[str, list[dict]]:
        heard: list[dict] = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                heard.append({**asked, "path": self.path, "key": self.headers.get("Authorization")})
                with contextlib.suppress(OSError):
                    reply(self, asked, len(heard))

            def log_message(self, *_: object) -> None:
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}/v1", heard

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def _by_server(
    corpus: Corpus, plan: QualityPlan, tmp_path: Path, address: str, seconds: float = 20, concurrency: int = 3
) -> Collected:
    server = Server(address=address, model="m", seconds=seconds, concurrency=concurrency, key="secret")
    return collect(corpus, _header(plan), tmp_path / "out.jsonl", lambda items: ask_server(plan, server, items))


def test_a_server_is_asked_with_the_plans_decoding_and_seeds(
    corpus: Corpus, plan: QualityPlan, tmp_path: Path, serve
) -> None:  # type: ignore[no-untyped-def]
    address, heard = serve(_good)
    found = _by_server(corpus, plan, tmp_path, address)
    assert not found.open_items
    expected = Answer(item="q3", output="3 + 1 =", finish_reason="stop", prompt_tokens=4)
    assert msgspec.structs.replace(found.answers.by_item["q3"], at=None) == expected
    asked = next(each for each in heard if each["prompt"] == "3 + 1 =")
    assert (asked["path"], asked["key"], asked["seed"]) == ("/v1/completions", "Bearer secret", seed_of(plan.id, "q3"))
    assert (asked["temperature"], asked["max_tokens"], asked["model"]) == (0.0, 16, "m")
    assert b"secret" not in (tmp_path / "out.jsonl").read_bytes()


def test_a_server_that_stumbles_is_asked_again_and_the_answer_says_so(
    corpus: Corpus, plan: QualityPlan, tmp_path: Path, serve
) -> None:  # type: ignore[no-untyped-def]
    def stumbles(handler, asked: dict, count: int) -> None:  # type: ignore[no-untyped-def]
        if count <= 2:
            _send(handler, 503, {"error": "busy"})
        else:
            _good(handler, asked, count)

    address, _ = serve(stumbles)
    found = _by_server(corpus, plan, tmp_path, address, concurrency=1)
    assert not found.open_items
    assert found.answers.by_item["q0"].attempts == 3
    assert found.answers.by_item["q1"].attempts == 1


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_refusal_is_the_servers_answer(corpus: Corpus, plan: QualityPlan, tmp_path: Path, serve, status: int) -> None:  # type: ignore[no-untyped-def]
    address, heard = serve(lambda handler, *_: _send(handler, status, {"error": "the prompt is too long"}))
    found = _by_server(corpus, plan, tmp_path, address)
    assert not found.open_items
    assert "too long" in (found.answers.by_item["q0"].refused or "")
    assert len(heard) == 12


CONTEXT = "the request exceeds the available context size"


@pytest.mark.parametrize(
    "status, text, is_answer",
    [
        (400, json.dumps({"error": {"type": "exceed_context_size_error", "message": CONTEXT}}), True),
        (400, "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens", True),
        (400, "Input length 9000 exceeds the maximum", True),
        (413, "", True),
        (400, "top_p must be in (0, 1]", False),
        (422, "field required: body.model", False),
        (400, "max_tokens must be at least 1", False),
    ],
)
def test_a_request_that_is_refused_as_such_answers_no_item(
    corpus: Corpus, plan: QualityPlan, tmp_path: Path, serve, status: int, text: str, is_answer: bool
) -> None:  # type: ignore[no-untyped-def]
    address, _ = serve(lambda handler, *_: _send(handler, status, text.encode()))
    found = _by_server(corpus, plan, tmp_path, address, concurrency=12)
    assert len(found.answers.by_item) == (12 if is_answer else 0)
    assert {asked.failure.code for asked in found.failures if asked.failure} <= {"quality.server-status"}


def test_a_server_that_asks_for_a_pause_gets_it(
    corpus: Corpus, plan: QualityPlan, tmp_path: Path, serve, monkeypatch: pytest.MonkeyPatch
) -> None:  # type: ignore[no-untyped-def]
    slept: list[float] = []
    monkeypatch.setattr(endpoint.time, "sleep", slept.append)
    wishes = ["7", "99999", "soon", "Wed, 21 Oct 2026 07:28:00 GMT", None]

    def limits(handler, asked: dict, count: int) -> None:  # type: ignore[no-untyped-def]
        if count > len(wishes):
            _good(handler, asked, count)
            return
        handler.send_response(429)
        if wishes[count - 1] is not None:
            handler.send_header("Retry-After", wishes[count - 1])
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    monkeypatch.setattr(endpoint, "ATTEMPTS", 6)
    address, _ = serve(limits)
    found = _by_server(corpus, plan, tmp_path, address, concurrency=1)
    assert not found.open_items
    assert slept == [7, 120, 0.04, 0.08, 0.16]


@pytest.mark.parametrize(
    "reply, code",
    [
        (lambda handler, *_: _send(handler, 404, {"error": "no such path"}), "quality.server-status"),
        (lambda handler, *_: _send(handler, 401, b"\xff\xfe"), "quality.server-status"),
        (lambda handler, *_: _send(handler, 200, b"<html>welcome</html>"), "quality.server-garbage"),
        (lambda handler, *_: _send(handler, 200, {"choices": []}), "quality.server-garbage"),
        (lambda handler, *_: _send(handler, 200, {"choices": [{"text": 7}]}), "quality.server-garbage"),
        (lambda handler, *_: _send(handler, 200, b"[" * 100_000), "quality.server-garbage"),
        (lambda handler, *_: _send(handler, 200, b'{"choices": [{"text": "\xff"}]}'), "quality.server-garbage"),
        (lambda handler, *_: handler.wfile.write(b"HTTP/1.1 banana\r\n\r\n"), "quality.server-unreached"),
        (lambda handler, *_: handler.connection.close(), "quality.server-unreached"),
        (lambda *_: time.sleep(1.5), "quality.server-too-slow"),
    ],
)  # fmt: skip
def test_a_server_that_fails_leaves_items_open_with_the_reason(
    corpus: Corpus,
    plan: QualityPlan,
    tmp_path: Path,
    serve,
    monkeypatch: pytest.MonkeyPatch,
    reply: Reply,
    code: str,  # type: ignore[no-untyped-def]
) -> None:
    monkeypatch.setattr(endpoint, "ATTEMPTS", 2)
    address, _ = serve(reply)
    found = _by_server(
        corpus, plan, tmp_path, address, seconds=0.5 if code == "quality.server-too-slow" else 20, concurrency=12
    )
    assert len(found.open_items) == 12
    assert {asked.failure.code for asked in found.failures if asked.failure} == {code}


def test_a_server_that_drips_is_stopped_at_its_time(
    corpus: Corpus, plan: QualityPlan, tmp_path: Path, serve, monkeypatch: pytest.MonkeyPatch
) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(endpoint, "ATTEMPTS", 1)

    def drips(handler, *_: object) -> None:  # type: ignore[no-untyped-def]
        handler.send_response(200)
        handler.end_headers()
        for _ in range(100):
            handler.wfile.write(b" ")
            handler.wfile.flush()
            time.sleep(0.05)

    address, _ = serve(drips)
    found = _by_server(corpus, plan, tmp_path, address, seconds=0.4, concurrency=12)
    assert {asked.failure.code for asked in found.failures if asked.failure} == {"quality.server-too-slow"}


def test_an_endless_answer_is_cut(
    corpus: Corpus, plan: QualityPlan, tmp_path: Path, serve, monkeypatch: pytest.MonkeyPatch
) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(endpoint, "MOST_BYTES", 100_000)
    address, _ = serve(lambda handler, *_: _send(handler, 200, b"x" * 1_000_000))
    found = _by_server(corpus, plan, tmp_path, address)
    assert {asked.failure.code for asked in found.failures if asked.failure} == {"quality.server-too-long"}


def test_after_five_failures_in_a_row_nobody_is_asked(
    plan: QualityPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("httpx2")
    monkeypatch.setattr(endpoint, "ATTEMPTS", 1)
    many = written_corpus(tmp_path, 60)
    server = Server(address="http://127.0.0.1:9/v1", model="m", concurrency=2)
    found = collect(many, _header(plan), tmp_path / "out.jsonl", lambda items: ask_server(plan, server, items))
    assert len(found.open_items) == 60
    assert 5 <= len(found.failures) <= 7


def test_a_cut_prompt_is_a_truncated_answer() -> None:
    reply = b'{"truncated": true, "choices": [{"text": "x", "finish_reason": "stop"}]}'
    assert endpoint.read_completion("q", reply, is_chat=False).is_truncated
    limit = b'{"choices": [{"message": {"content": "x"}, "finish_reason": "length"}]}'
    assert endpoint.read_completion("q", limit, is_chat=True).is_truncated


@pytest.mark.parametrize(
    "address", ["127.0.0.1:8000", "ftp://host", "http://", "http://host:port/v1", "http://h/v1?x=1"]
)
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(CapienzaError) as caught:
        check_address(address)
    assert caught.value.message.code == "quality.not-an-address"


def test_several_bad_lines_are_said_together(corpus: Corpus, plan: QualityPlan, tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    collect(corpus, _header(plan), path, lambda items: _right(list(items)[:1]))
    path.write_text(path.read_text() + '{"item": 1}\n{"item": "q0"}\n')
    with pytest.raises(InputErrors) as caught:
        read_answers(str(path))
    assert [problem.place.line for problem in caught.value.problems] == [3, 4]
