"""Input that wants a verdict it has not earned, or all of the time, the memory or the secrets of this machine."""

from __future__ import annotations

import gzip
import http.server
import json
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from gate import NOW, answers, plan_for, written_corpus

from capienza.errors import CapienzaError, InputError, Place, UsageError
from capienza.jsonlines import MOST_VALUES, row_of
from capienza.quality import command
from capienza.quality.answers import Answer, Header, read_answers
from capienza.quality.collect import Asked, collect
from capienza.quality.command import ask_command
from capienza.quality.compare import compare
from capienza.quality.corpus import Item
from capienza.quality.endpoint import Server, ask_server, check_key
from capienza.quality.metrics import figure
from capienza.quality.metrics.structure import check_schema, is_valid
from capienza.quality.plan import PlannedMetric, frozen, read_plan, write_plan

EVERY = ("reference", "reference_again", "candidate", "harmed")
BEFORE = int(NOW.timestamp()) - 60


def _arms(plan):  # type: ignore[no-untyped-def]
    wrong = {"harmed": 100}
    return {arm: answers(plan, arm, wrong=wrong.get(arm, 0)) for arm in EVERY}  # type: ignore[arg-type]


def _codes(found):  # type: ignore[no-untyped-def]
    return [doubt.code for doubt in found.doubts]


def test_the_reference_renamed_is_no_candidate(tmp_path: Path) -> None:
    corpus = written_corpus(tmp_path)
    plan = plan_for(corpus)
    arms = _arms(plan)
    assert compare(plan, corpus, arms).words == {"numeric": "satisfied"}
    header = msgspec.structs.replace(arms["reference"].header, arm="candidate")
    copied = msgspec.structs.replace(arms["reference"], header=header, file="copy.jsonl")
    found = compare(plan, corpus, arms | {"candidate": copied})
    assert (_codes(found), found.words) == (["quality.same-file-twice"], {"numeric": "insufficient"})


def test_one_file_under_two_names_is_one_run(tmp_path: Path) -> None:
    corpus = written_corpus(tmp_path)
    plan = plan_for(corpus)
    arms = _arms(plan)
    (tmp_path / "reference.jsonl").touch()
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "reference.jsonl")
    names = {"reference": tmp_path / "reference.jsonl", "candidate": tmp_path / "x" / ".." / "link.jsonl"}
    arms |= {arm: msgspec.structs.replace(arms[arm], file=str(path)) for arm, path in names.items()}  # type: ignore[index]
    assert _codes(compare(plan, corpus, arms)) == ["quality.same-file-twice"]


def test_an_answer_older_than_the_plan_outweighs_the_date_of_its_file(tmp_path: Path) -> None:
    corpus = written_corpus(tmp_path)
    plan = plan_for(corpus)
    old = Answer(item="q7", output="8", finish_reason="stop", at=BEFORE)
    candidate = answers(plan, "candidate", instead={"q7": old})
    found = compare(plan, corpus, _arms(plan) | {"candidate": candidate})
    assert (_codes(found), found.words) == (["quality.outputs-before-plan"], {"numeric": "insufficient"})


@pytest.mark.parametrize("date", ["2026-11-30T13:00:00", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_date_that_is_no_moment_is_refused(tmp_path: Path, date: str) -> None:
    path = tmp_path / "o.jsonl"
    row = {"schema": "capienza.quality-outputs/1", "plan": "p", "arm": "candidate", "target": "t", "date": date}
    path.write_text(f"{json.dumps(row)}\n")
    with pytest.raises(InputError) as caught:
        read_answers(str(path))
    assert caught.value.message.code == "quality.outputs-without-header"


@pytest.mark.parametrize("at", [-1, 10**15, 2**63 - 1])
def test_a_moment_beyond_the_calendar_is_refused(tmp_path: Path, at: int) -> None:
    path = tmp_path / "o.jsonl"
    head = Header(plan="p", arm="candidate", target="t", date=NOW)
    path.write_bytes(msgspec.json.encode(head) + b"\n" + json.dumps({"item": "a", "at": at}).encode() + b"\n")
    with pytest.raises(CapienzaError):
        read_answers(str(path))


def test_a_plan_whose_date_names_no_zone_is_no_plan(tmp_path: Path) -> None:
    plan = plan_for(written_corpus(tmp_path))
    write_plan(frozen(msgspec.structs.replace(plan, date=NOW.replace(tzinfo=None))), tmp_path / "plan.json")
    with pytest.raises(InputError) as caught:
        read_plan(str(tmp_path / "plan.json"))
    assert caught.value.message.code == "quality.not-a-plan"


# A file of another kind


@pytest.mark.parametrize("content", [b'{"id": "a", "prompt": "?"}', b"one\nunfinished", b"x", b"{}\n{"])
def test_a_file_that_is_not_ours_is_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    corpus = written_corpus(tmp_path, 3)
    plan = plan_for(corpus)
    path = tmp_path / "precious.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        collect(corpus, Header(plan=plan.id, arm="candidate", target="t", date=NOW), path, lambda _: iter(()))
    assert caught.value.message.code == "quality.outputs-without-header"
    assert path.read_bytes() == content


# Time and memory


@pytest.mark.parametrize(
    "metric, item, output",
    [
        (PlannedMetric(name="m", kind="regex", pattern="(a+)+$"), Item(id="i", cluster="i"), "a" * 60 + "b"),
        (
            PlannedMetric(name="m", kind="json_schema"),
            Item(id="i", cluster="i", schema={"type": "string", "pattern": "^(a+)+$"}),
            json.dumps("a" * 60 + "b"),
        ),
    ],
)
def test_a_pattern_without_end_is_an_error_and_no_verdict(monkeypatch, metric, item, output) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(figure, "MOST_SECONDS", 0.2)
    with pytest.raises(InputError) as caught:
        figure.figure_of(metric)(item, Answer(item="i", output=output))
    assert caught.value.message.code == "quality.metric-not-ending"


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$ref": "#/$defs/nowhere"},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
        {"$ref": "http://127.0.0.1:9/x.json"},
        {"$dynamicRef": "http://127.0.0.1:9/x.json"},
        {"properties": {"a": {"$ref": "file:///etc/passwd"}}},
        {"$id": "http://127.0.0.1:9/", "$ref": "other.json"},
    ],
)
def test_a_schema_that_leads_out_or_nowhere_is_refused(schema: dict[str, object]) -> None:
    with pytest.raises(InputError) as caught:
        check_schema(schema, "i", Place("corpus.jsonl", line=1))
    assert caught.value.message.code == "quality.bad-schema"


def test_a_schema_never_asks_the_network() -> None:
    with pytest.raises(InputError):
        is_valid({"properties": {"a": {"$ref": "http://127.0.0.1:9/x.json"}}}, '{"a": 1}')
    assert is_valid({"$defs": {"t": {"items": {"$ref": "#/$defs/t"}, "type": "array"}}, "$ref": "#/$defs/t"}, "[[[]]]")


@pytest.mark.parametrize("unit", [b"[]", b"{}", b"[[]]", b'{"a":[]}', b"0"])
def test_a_line_of_nothing_but_values_is_refused_unread(unit: bytes) -> None:
    line = b'{"a":[' + b",".join([unit] * (MOST_VALUES + 1)) + b"]}"
    with pytest.raises(InputError) as caught:
        row_of(line, Place("x", line=1))
    assert caught.value.message.code == "jsonlines.too-many-values"


# A command


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_PATIENCE_SECONDS", 0.3)


def _asked(tmp_path: Path, body: str, seconds: float = 0.5) -> list[Asked]:
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps({"id": f"q{n}", "prompt": "x" * 300_000, "expected": 1}) + "\n" for n in (1, 2)))
    from capienza.quality.corpus import read_corpus

    corpus = read_corpus(str(path))
    return list(ask_command(plan_for(corpus), [sys.executable, "-c", body], corpus.items, 2, seconds))


@pytest.mark.parametrize(
    "body, code",
    [
        ("import time; time.sleep(60)", "quality.command-silent"),
        ("import os, time; os.close(1); time.sleep(60)", "quality.command-ended"),
        ("import os, time; os.close(0); time.sleep(60)", "quality.command-silent"),
        ("import os, time; os.fork() or time.sleep(4)", "quality.command-silent"),
    ],
)
def test_a_command_that_does_not_read_or_does_not_end_holds_nothing_up(
    tmp_path: Path, impatient: None, body: str, code: str
) -> None:
    found = _asked(tmp_path, body)
    assert [each.item for each in found] == ["q1", "q2"]
    assert {each.failure.code for each in found if each.failure} == {code}


def test_a_command_that_writes_without_end_fills_no_memory(tmp_path: Path, impatient: None) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(CapienzaError):
        _asked(tmp_path, "import sys\nwhile True: sys.stdout.write('x' * 2**20)", seconds=20)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 * 2**10


# A server


@pytest.fixture
def reply() -> Iterator[dict[str, object]]:
    wanted: dict[str, object] = {"status": 200, "body": b"", "headers": {}}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(wanted["status"])  # type: ignore[arg-type]
            for name, value in wanted["headers"].items():  # type: ignore[attr-defined]
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(wanted["body"])  # type: ignore[arg-type]

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    wanted["address"] = f"http://127.0.0.1:{server.server_port}/v1"
    yield wanted
    server.shutdown()
    server.server_close()


def _one(tmp_path: Path, reply: dict[str, object], key: str | None = None) -> Asked:
    pytest.importorskip("httpx2")
    corpus = written_corpus(tmp_path, 1)
    server = Server(address=str(reply["address"]), model="m", seconds=10, key=key)
    return next(iter(ask_server(plan_for(corpus), server, corpus.items)))


@pytest.mark.parametrize("status", [200, 400, 401])
@pytest.mark.parametrize("shape", ['{{"choices": [{{"text": "{0}"}}]}}', "context length: bad key {0}"])
def test_a_key_that_the_server_repeats_is_kept_nowhere(tmp_path: Path, reply, status: int, shape: str) -> None:  # type: ignore[no-untyped-def]
    key = "sk-very-secret"
    reply |= {"status": status, "body": shape.format(f"Bearer {key}").encode()}
    found = _one(tmp_path, reply, key)
    assert "***" in repr(found)
    assert key not in repr(found)


def test_a_packed_answer_is_not_unpacked(tmp_path: Path, reply) -> None:  # type: ignore[no-untyped-def]
    reply |= {"body": gzip.compress(gzip.compress(b" " * 10**7)), "headers": {"Content-Encoding": "gzip, gzip"}}
    assert _one(tmp_path, reply).failure.code == "quality.server-packed"  # type: ignore[union-attr]


def test_a_redirect_is_not_followed(tmp_path: Path, reply) -> None:  # type: ignore[no-untyped-def]
    reply |= {"status": 307, "headers": {"Location": "http://127.0.0.1:9/steal"}}
    assert _one(tmp_path, reply, "sk-x").failure.code == "quality.server-status"  # type: ignore[union-attr]


def test_a_key_is_trimmed_and_one_that_no_header_carries_is_never_shown() -> None:
    assert check_key("sk-1\n") == "sk-1"
    for odd in ("sk-\nsecret", "sk-sécret", "sk-\x00secret"):
        with pytest.raises(UsageError) as caught:
            check_key(odd)
        assert "cret" not in str(caught.value)


def test_ids_and_names_drive_no_terminal(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    row = json.dumps({"id": "\x1b[2Jfine\n\u202eid", "prompt": "?", "expected": 1})
    path.write_text(f"{row}\n{row}\n")
    body = (
        "import sys; from capienza.errors import CapienzaError; from capienza.cli.failure import fail\n"
        "from capienza.quality.corpus import read_corpus\n"
        "try: read_corpus(sys.argv[1])\n"
        "except CapienzaError as error: sys.exit(fail(error, []))"
    )
    done = subprocess.run([sys.executable, "-c", body, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "\x1b" not in done.stderr
    assert "\u202e" not in done.stderr
