"""Parts of measuring by themselves: secrets, processes without /proc, missing packages, engines' own figures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capienza.errors import Message, MissingPartError
from capienza.ledger.entry import Entry
from capienza.ledger.ledger import Ledger
from capienza.ledger.phase import Phase
from capienza.measure import nvml, tree
from capienza.measure.environment import interpreter_of
from capienza.measure.observed import Observed, beside
from capienza.measure.secrets import masked, masked_setting
from capienza.units import GIB, MIB, Range


@pytest.mark.parametrize(
    "words, expected",
    [
        (["--api-key", "abc"], ["--api-key", "***"]),
        (["--api-key=abc"], ["--api-key=***"]),
        (["HF_TOKEN=abc", "x"], ["HF_TOKEN=***", "x"]),
        (["-e", "WANDB_API_KEY=abc"], ["-e", "WANDB_API_KEY=***"]),
        (["--hf_token", "abc"], ["--hf_token", "***"]),
        (["--password", "p w"], ["--password", "***"]),
        (["curl", "-H", "Authorization: Bearer abc.def"], ["curl", "-H", "Authorization: Bearer ***"]),
        (["https://u:p@host/x"], ["https://***@host/x"]),
        (["https://host/x?token=abc&n=1"], ["https://host/x?token=***&n=1"]),
        (["bash", "-c", "export K=hf_abcdefghijkl; run"], ["bash", "-c", "export K=***; run"]),
        (["sk-proj-abcdefghijkl"], ["***"]),
        (["--max-tokens", "512", "--tokenizer", "gpt2"], ["--max-tokens", "512", "--tokenizer", "gpt2"]),
        (["--max_new_tokens=5", "--pad-token-id", "0"], ["--max_new_tokens=5", "--pad-token-id", "0"]),
        (["--keyframes", "3", "--monkey=1"], ["--keyframes", "3", "--monkey=1"]),
        (["--token", "--verbose"], ["--token", "--verbose"]),
        (["--wandb_key", "abc", "--private_key=abc"], ["--wandb_key", "***", "--private_key=***"]),
        (
            ["sh", "-c", "export A_TOKEN=abc; B_SECRET='d e' run"],
            ["sh", "-c", "export A_TOKEN=***; B_SECRET='***' run"],
        ),
        (['{"api_key":"abc", "n": 1}'], ['{"api_key":"***", "n": 1}']),
        (["{'password': 'a b'}"], ["{'password': '***'}"]),
        (["curl", "-H", "Cookie: sid=abc; b=c"], ["curl", "-H", "Cookie: ***"]),
        (['{"max_tokens": 5, "model": "a"}', "X=1; run"], ['{"max_tokens": 5, "model": "a"}', "X=1; run"]),
        (["python", "-c", "token_ids=[1]; key = 2"], ["python", "-c", "token_ids=[1]; key = 2"]),
        (["--sort-key", "a", "--primary_key=id"], ["--sort-key", "a", "--primary_key=id"]),
        (["mysql", "-p", "abc"], ["mysql", "-p", "***"]),
        (["mysql", "-pabc", "-u", "root"], ["mysql", "-p***", "-u", "root"]),
        (["x", "-pS3cret", "--pwd", "abc"], ["x", "-p***", "--pwd", "***"]),
        (["curl", "-u", "me:abc", "http://h:80/x"], ["curl", "-u", "me:***", "http://h:80/x"]),
        (["rsync", "me:abc@host:/x", "."], ["rsync", "***@host:/x", "."]),
        (["http://u:p@abc@host/x"], ["http://***@host/x"]),
        (["Authorization: Token abc"], ["Authorization: Token ***"]),
        (["openssl", "-passin", "pass:abc"], ["openssl", "-passin", "***"]),
        (["sh", "-c", "HF_TOKEN=abc python t.py"], ["sh", "-c", "HF_TOKEN=*** python t.py"]),
        (["sh", "-c", 'x --password "a b" --n 3'], ["sh", "-c", 'x --password "***" --n 3']),
        (["sh", "-c", "mysql -u me -p abc; curl -u me:abc u"], ["sh", "-c", "mysql -u me -p ***; curl -u me:*** u"]),
        (
            ["docker", "run", "-p", "80:80/tcp", "a/b:c@sha256:d"],
            ["docker", "run", "-p", "80:80/tcp", "a/b:c@sha256:d"],
        ),
        (["llama-cli", "-pp", "512", "-parallel", "4"], ["llama-cli", "-pp", "512", "-parallel", "4"]),
        (["sh", "-c", "python -u t.py -p 8000"], ["sh", "-c", "python -u t.py -p 8000"]),
        (["--pass-through", "1", "--passes", "3"], ["--pass-through", "1", "--passes", "3"]),
    ],
)
def test_secrets_are_masked_and_the_rest_stays(words, expected):
    assert masked(words) == expected


@given(
    st.text("abcXYZ0189-_.+", min_size=6, max_size=20).filter(lambda text: text[0].isalpha() and "X" in text[1:]),
    st.sampled_from([
        ("--password", "{}"), ("--db-password={}",), ("-p", "{}"), ("mysql", "-p{}"), ("API_TOKEN={}",),
        ("https://me:{}@host/x",), ("me:{}@host:/x",), ("curl", "-u", "me:{}"), ("-H", "Authorization: Bearer {}"),
        ("sh", "-c", "A_SECRET={} run --n 1"), ("sh", "-c", "run --token {} --n 1"), ('{{"password": "{}"}}',),
        ("https://host/x?sig={}",), ("--passin", "{}"), ("sh", "-c", "x -p '{}'"),
    ]),
)  # fmt: skip
def test_no_secret_is_kept_wherever_it_stands(secret, form):
    kept = masked(
        ["run", *(word.format(secret) for word in form)]
        if form[0] not in ("mysql",)
        else [word.format(secret) for word in form]
    )
    assert not any(secret in word for word in kept)


def test_settings_are_masked_by_name_and_by_form():
    assert masked_setting("VLLM_S3_SECRET_ACCESS_KEY", "abc") == "***"
    assert masked_setting("NCCL_DEBUG", "INFO") == "INFO"
    assert masked_setting("VLLM_HOST", "http://u:p@h/x") == "http://***@h/x"


def test_processes_without_proc_are_asked_of_psutil(monkeypatch):
    pytest.importorskip("psutil")
    child = subprocess.Popen(
        [sys.executable, "-c", "import time; x = bytearray(30_000_000); print(1, flush=True); time.sleep(60)"],
        stdout=subprocess.PIPE,
    )
    with child:
        child.stdout.readline()
        monkeypatch.setattr(tree, "PROC", Path("/no/such/folder"))
        found = tree.Tree(child.pid, "run")
        found.look()
        assert found.rss_bytes() > 30_000_000
        assert found.owns(child.pid) is True
        monkeypatch.setitem(sys.modules, "psutil", None)
        assert found.rss_bytes() is None
        child.kill()


def test_a_driver_without_the_package_that_asks_it_is_said_before_the_start(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr(nvml, "DRIVER_FILES", (str(tmp_path),))
    with pytest.raises(MissingPartError) as caught:
        nvml.open_nvml()
    assert "capienza[measure]" in caught.value.message.hint
    monkeypatch.setattr(nvml, "DRIVER_FILES", (str(tmp_path / "none"),))
    assert isinstance(nvml.open_nvml(), Message)


@pytest.mark.parametrize(
    "line, entries, size",
    [
        ("Model loading took 14.9889 GiB and 3.2 seconds", ("weights", "loaded_extra"), 14.9889 * GIB),
        ("PyTorch activation peak memory takes 1.25GiB;", ("activation_peak",), 1.25 * GIB),
        ("Graph capturing finished in 21 secs, took 0.42 GiB", ("cuda_graph",), 0.42 * GIB),
        ("load_tensors:        CUDA0 model buffer size =  7605.33 MiB", ("weights",), 7605.33 * MIB),
        ("llama_kv_cache:      CUDA0 KV buffer size =   512.00 MiB", ("kv_cache",), 512 * MIB),
    ],
)
def test_what_an_engine_prints_of_itself(line, entries, size):
    seen = Observed()
    seen.line(line)
    assert list(seen.figures) == [entries]
    assert seen.figures[entries][0] == pytest.approx(size, abs=1)


def test_every_entry_is_once_in_the_ledger_beside_what_was_observed():
    def entry(name, amount):
        return Entry(name=name, phases=(Phase.LOAD,), device="gpu:0", amount=Range.exact(amount), status="estimated")

    ledger = Ledger(entries=(entry("weights", 14 * GIB), entry("loaded_extra", GIB), entry("context", GIB)))
    seen = Observed()
    seen.line("Model loading took 16 GiB and 3.2 seconds")
    seen.line("Graph capturing finished in 21 secs, took 0.42 GiB")
    parts = beside(ledger, "gpu:0", seen)
    assert [part.entries for part in parts] == [("weights", "loaded_extra"), ("context",)]
    assert parts[0].difference_bytes == GIB
    assert parts[1].observed_bytes is None
    assert parts[1].difference_bytes is None


def test_the_python_of_a_command(tmp_path):
    script = tmp_path / "tool"
    script.write_text(f"#!{sys.executable}\nprint(1)\n")
    script.chmod(0o755)
    assert interpreter_of([str(script)]) == sys.executable
    assert interpreter_of([sys.executable, "x.py"]) == sys.executable
    assert interpreter_of(["sh", "-c", "x"]) is None
    assert interpreter_of(["no-such-command"]) is None
