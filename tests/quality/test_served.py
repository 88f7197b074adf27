"""What a server says of itself, beside what the plan says of an arm."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import json
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from gate import plan_for, written_corpus

from capienza.api.qualifying import Ran, quality_run
from capienza.artifacts.gguf import read_gguf
from capienza.artifacts.gguf_tokenizer import tokenizer_digests
from capienza.artifacts.source import LocalFile
from capienza.errors import CapienzaError
from capienza.quality import endpoint
from capienza.quality.answers import read_answers
from capienza.quality.plan import Answering, write_plan
from capienza.quality.served import Served, described, is_another, served_findings

CHAT = "{{ messages }}"
SHA256 = hashlib.sha256(CHAT.encode()).hexdigest()
Says = dict[str, object]
LLAMACPP: Says = {
    "/props": {"model_alias": "a.gguf", "model_path": "/home/me/a.gguf", "chat_template": CHAT, "build_info": "b87-1a"},
    "/v1/models": {"data": [{"id": "a.gguf", "meta": {"size": 143025408}}]},
}
VLLM: Says = {
    "/version": {"version": "0.11.2"},
    "/v1/models": {"data": [{"id": "mine", "root": "Qwen/Qwen3-8B", "max_model_len": 4096}]},
}


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    pytest.importorskip("httpx2")
    monkeypatch.setattr(endpoint, "PAUSE_SECONDS", 0.01)
    servers = []

    def start(says: Says, status: int = 200) -> str:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                value = says.get(self.path)
                self._send(404 if value is None else 200, value)

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self._send(status, {"choices": [{"text": "1", "finish_reason": "stop"}]})

            def _send(self, code: int, value: object) -> None:
                data = value if isinstance(value, bytes) else json.dumps(value).encode()
                with contextlib.suppress(OSError):
                    self.send_response(code)
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}/v1"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def _plan(tmp_path: Path, model: str, version: str, chat: str | None = SHA256) -> Path:
    stated = Answering(model=model, engine_version=version)
    path = tmp_path / "plan.json"
    plan = plan_for(written_corpus(tmp_path, 6), candidate=stated, chat_template_sha256=chat)
    path.unlink(missing_ok=True)
    write_plan(plan, path)
    return path


def _codes(ran: Ran) -> list[str]:
    return [finding.code.removeprefix("quality.") for finding in ran.collected.findings]


@pytest.mark.parametrize(
    "says, model, version, chat, codes",
    [
        (LLAMACPP, "folder/a.gguf", "b87", SHA256, []),
        (LLAMACPP, "b.gguf", "b87", SHA256, ["serves-another-model"]),
        (LLAMACPP, "a.gguf", "b8", SHA256, ["serves-another-version"]),
        (LLAMACPP, "a.gguf", "b87", "0" * 64, ["serves-another-template"]),
        (LLAMACPP, "a.gguf", "b87", None, []),
        (VLLM, "Qwen/Qwen3-8B", "0.11.2", SHA256, []),
        (VLLM, "Qwen/Qwen3-4B", "0.11.1", SHA256, ["serves-another-model", "serves-another-version"]),
        ({}, "any", "1", SHA256, []),
        ({"/props": b"<html>", "/version": b"[]", "/v1/models": {"data": 7}}, "any", "1", SHA256, []),
        ({"/props": {"chat_template": 7, "model_path": []}, "/v1/models": {"data": [{"meta": 1}]}}, "a", "1", None, []),
    ],
)
def test_what_a_server_says_is_compared_with_the_plan(
    tmp_path: Path, serve: Callable[..., str], says: Says, model: str, version: str, chat: str | None, codes: list[str]
) -> None:
    ran = quality_run(_plan(tmp_path, model, version, chat), "candidate", [serve(says)])
    assert not ran.collected.open_items
    assert _codes(ran) == codes


def test_the_first_line_keeps_what_was_said_without_folders(tmp_path: Path, serve: Callable[..., str]) -> None:
    ran = quality_run(_plan(tmp_path, "a.gguf", "b87"), "candidate", [serve(LLAMACPP)])
    expected = Served(models=("a.gguf",), version="b87-1a", chat_template_sha256=SHA256, weights_bytes=143025408)
    read = read_answers(str(ran.path))
    assert read.header.served == expected
    assert "/home" not in ran.path.read_text()
    assert all(answer.at for answer in read.by_item.values())


def test_an_arm_is_not_gone_on_with_by_another_model(tmp_path: Path, serve: Callable[..., str]) -> None:
    plan = _plan(tmp_path, "a.gguf", "b87")
    path = quality_run(plan, "candidate", [serve(LLAMACPP)]).path
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:3]))
    before = path.read_bytes()
    with pytest.raises(CapienzaError) as caught:
        quality_run(plan, "candidate", [serve(VLLM)])
    assert caught.value.message.code == "quality.outputs-of-another-model"
    assert path.read_bytes() == before
    assert not quality_run(plan, "candidate", [serve({})]).collected.open_items


def test_another_is_only_what_both_sides_state() -> None:
    said = Served(models=("a",), chat_template_sha256=SHA256, weights_bytes=3)
    assert not is_another(said, Served())
    assert not is_another(said, msgspec.structs.replace(said, version="2"))
    for change in ({"models": ("b",)}, {"chat_template_sha256": "0" * 64}, {"weights_bytes": 4}):
        assert is_another(said, msgspec.structs.replace(said, **change))
    assert described(said) == f"a; 3 B; chat template {SHA256[:12]}"
    assert served_findings(None, "candidate", None) == ()  # type: ignore[arg-type]


def _gguf(path: Path, tokens: tuple[str, ...], chat: str | None, weights: int = 0) -> tuple[str | None, str | None]:
    """A file with no more than a tokenizer, written by the format's own description."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value.encode())) + value.encode()

    keys = [
        text("general.architecture") + struct.pack("<i", 8) + text("llama"),
        text("general.file_type") + struct.pack("<iI", 4, weights),
        text("tokenizer.ggml.tokens") + struct.pack("<iiQ", 9, 8, len(tokens)) + b"".join(map(text, tokens)),
    ]
    keys += [text("tokenizer.chat_template") + struct.pack("<i", 8) + text(chat)] if chat is not None else []
    path.write_bytes(b"GGUF" + struct.pack("<Iqq", 3, 0, len(keys)) + b"".join(keys) + bytes(64))
    with LocalFile(path) as source:
        read_gguf(source)
        return tokenizer_digests(source)


def test_digests_of_a_gguf_file_see_the_tokenizer_and_nothing_else(tmp_path: Path) -> None:
    path, long = tmp_path / "m.gguf", tuple(f"token{number}" for number in range(200_000))
    one, chat = _gguf(path, ("a", "b"), CHAT)
    assert chat == SHA256
    assert _gguf(path, ("a", "b"), CHAT, weights=7) == (one, chat)
    assert _gguf(path, ("a", "b"), None) == (one, None)
    assert _gguf(path, ("a", "b"), "other")[1] != chat
    assert _gguf(path, ("b", "a"), CHAT)[0] != one
    assert _gguf(path, ("ab",), CHAT)[0] != one
    assert _gguf(path, long, CHAT)[0] != _gguf(path, (*long[:-1], "last"), CHAT)[0]


MEMORY = """
import pathlib, sys
from capienza.errors import CapienzaError
from capienza.quality.{module} import {reader}
try:
    {reader}(sys.argv[1])
except CapienzaError as error:
    # Not ru_maxrss: it counts what the parent had at the fork.
    status = pathlib.Path("/proc/self/status").read_text()
    peak = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
    print(error.message.code, int(peak) // 1024)
"""


@pytest.mark.parametrize("module, reader", [("corpus", "read_corpus"), ("answers", "read_answers")])
def test_a_line_of_a_gigabyte_is_refused_in_little_memory(tmp_path: Path, module: str, reader: str) -> None:
    import subprocess

    path = tmp_path / "long.jsonl"
    with path.open("wb") as file:
        file.write(b'{"id": "')
        file.truncate(2**30)
    program = MEMORY.format(module=module, reader=reader)
    found = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
    code, peak_mib = found.stdout.split()
    assert code == "jsonlines.too-long"
    assert int(peak_mib) < 150
