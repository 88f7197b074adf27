"""What may happen to a run: kills, signals, full disks, lost readers, floods. Its own exit code is what comes out."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from machines import SCRIPT

from capienza.evidence.folder import read_folder
from capienza.measure.readings import Readings

FLOOD = """
import os, sys
piece = b"a line of a log that goes on and on, as they do\\n" * 2000
for _ in range(20_000_000 // len(piece)):
    view = memoryview(piece)
    while view:
        view = view[os.write(1, view):]
sys.stderr.write("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\\n")
sys.exit(5)
"""


def wait_for(condition, seconds=60.0):
    """Wait until it holds; the test that needs it fails by its own assertion."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def newest(machine):
    folders = sorted((machine.folder / "runs").glob("*"))
    return folders[-1] if folders else None


def readings_of(folder):
    return [one for one in Readings(folder / "readings.jsonl").readings() if one.counter.name == "rss"]


def is_running(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def test_output_and_exit_code_pass_through_unchanged(bare_machine):
    # It stays for longer than the time between two readings.
    data = bytes(range(256)) * 100 + b"\xff\xfe no end"
    script = "import sys, time; time.sleep(1); "
    script += "sys.stdout.buffer.write(bytes(range(256))*100+b'\\xff\\xfe no end'); sys.exit(7)"
    ended = bare_machine.measure("--", sys.executable, "-c", script)
    assert (ended.code, ended.out) == (7, data)
    assert (ended.folder / "output.log").read_bytes() == data
    assert ended.run["exit_code"] == 7
    assert ended.run["peaks"][0]["counter"] == "rss"
    assert ended.record["scope"]["gpu"] is None


@pytest.mark.parametrize("command, code", [(["no-such-command"], 127), (["/etc/passwd"], 125), (["/tmp"], 125)])
def test_a_command_that_cannot_start(bare_machine, command, code):
    ended = bare_machine.measure("--", *command)
    assert ended.code == code
    assert b"Traceback" not in ended.err
    assert not list((bare_machine.folder / "runs").iterdir())
    assert not list((bare_machine.folder / "evidence").iterdir())


@pytest.mark.parametrize(
    "arguments",
    [
        ("--stage", "longest", "--", "true"),
        ("--runs", "a", "--runs", "b", "--", "true"),
        ("--runs", "/proc/nowhere", "--", "true"),
        ("--evidence", "/proc/nowhere", "--", "true"),
        ("--plan", "abc", "--", "true"),
        (),
    ],
)
def test_whatever_keeps_it_from_starting_is_125(bare_machine, arguments):
    ended = bare_machine.measure(*arguments)
    assert ended.code == 125
    assert b"Traceback" not in ended.err


def test_a_card_that_is_none_or_lacks_the_stage_is_125(bare_machine):
    bare_machine.card("- no card")
    assert bare_machine.measure("--", "true").code == 125
    bare_machine.card("capienza: 1\nname: x\nmodel: {parameters: 1e6, bits: 16}\ntask: inference\n")
    ended = bare_machine.measure("--", "true")
    assert ended.code == 125
    assert b"tokens.required" in ended.err


def test_a_killed_command_leaves_a_record_of_a_failure(bare_machine):
    ended = bare_machine.measure("--", sys.executable, "-c", "import os,signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert ended.code == 128 + signal.SIGKILL
    assert ended.run["outcome"] == "failed"
    assert read_folder(bare_machine.folder / "evidence")


def test_kill_9_of_measure_keeps_what_was_read_and_ends_the_command(bare_machine):
    script = "import os,time; x=bytearray(60_000_000); print(os.getpid(), flush=True); time.sleep(100)"
    process = bare_machine.start("--", sys.executable, "-c", script)
    pid = int(process.stdout.readline())
    try:
        assert wait_for(
            lambda: newest(bare_machine) and any(r.value > 60_000_000 for r in readings_of(newest(bare_machine)))
        )
        process.kill()
        process.communicate()
        folder = newest(bare_machine)
        assert any(one.value > 60_000_000 for one in readings_of(folder))
        assert (folder / "output.log").read_bytes() == f"{pid}\n".encode()
        if sys.platform == "linux":
            assert wait_for(lambda: not is_running(pid))
    finally:
        if is_running(pid):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_to_measure_reaches_the_command(bare_machine, number):
    script = (
        "import os,signal,sys,time\n"
        f"signal.signal({int(number)}, lambda *_: sys.exit(42))\nprint(os.getpid(), flush=True)\ntime.sleep(100)"
    )
    process = bare_machine.start("--", sys.executable, "-c", script)
    process.stdout.readline()
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == 42


def test_ctrl_c_ends_the_command_and_not_the_measuring(bare_machine):
    script = (
        "import time\ntry:\n  print('on', flush=True); time.sleep(100)\nexcept KeyboardInterrupt: raise SystemExit(9)"
    )
    process = bare_machine.start("--", sys.executable, "-c", script, start_new_session=True)
    process.stdout.readline()
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    ended = bare_machine.ended(process.returncode, b"", err)
    assert ended.code == 9
    assert ended.run["outcome"] == "failed"
    assert "measure.interrupted" in ended.codes()


def test_a_reader_that_goes_away_ends_an_endless_command(bare_machine):
    process = bare_machine.start("--", "sh", "-c", "trap '' INT; exec yes")
    with process:
        process.stdout.readline()
        process.stdout.close()
        process.stderr.read()
    assert process.returncode == 128 + signal.SIGPIPE
    assert "measure.reader-gone" in bare_machine.ended(process.returncode).codes()


def test_a_process_left_behind_does_not_hold_up_the_end(bare_machine):
    process = bare_machine.start("--", "sh", "-c", "sleep 30 & echo $!; exit 6")
    left = int(process.stdout.readline())
    try:
        process.communicate(timeout=25)
        assert process.returncode == 6
        assert "measure.left-behind" in bare_machine.ended(6).codes()
    finally:
        os.kill(left, signal.SIGKILL)


def test_a_flood_is_passed_on_whole_and_its_end_is_read(bare_machine):
    (bare_machine.folder / "flood.py").write_text(FLOOD)
    ended = bare_machine.measure("--", sys.executable, "flood.py")
    assert ended.code == 5
    assert len(ended.out) == 20_000_000 // 96_000 * 96_000
    assert (ended.folder / "output.log").stat().st_size > len(ended.out)
    assert "measure.output-not-read" in ended.codes()
    assert ended.run["outcome"] == "out_of_memory"  # the last line was read all the same


def test_a_line_of_ten_megabytes(bare_machine):
    ended = bare_machine.measure("--", sys.executable, "-c", "print('x' * 10_000_000); raise SystemExit(3)")
    assert (ended.code, len(ended.out)) == (3, 10_000_001)


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 300 KB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", folder], capture_output=True)
    if mounted.returncode:
        pytest.skip("a small disk cannot be mounted here")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk_keeps_the_output_flowing_and_says_what_is_missing(bare_machine, small_disk):
    (bare_machine.folder / "flood.py").write_text(FLOOD)
    ended = bare_machine.measure("--runs", str(small_disk), "--json", "--", sys.executable, "flood.py")
    assert ended.code == 5
    assert len(ended.out) == 20_000_000 // 96_000 * 96_000
    said = json.loads(ended.err[ended.err.index(b"{\n") :])
    assert {"measure.log-cut", "measure.file-not-written"} <= {finding["code"] for finding in said["findings"]}
    # The record itself is on another disk.
    assert said["record"] is not None
    assert read_folder(bare_machine.folder / "evidence")


def test_the_folder_of_the_run_vanishes_while_it_runs(bare_machine):
    ended = bare_machine.measure("--", "sh", "-c", 'rm -rf "$CAPIENZA_RUN"; sleep 0.3; exit 8')
    assert ended.code == 8
    assert b"Traceback" not in ended.err
    assert b"internal error" not in ended.err


def test_standard_streams_that_are_closed(bare_machine):
    command = " ".join(
        [
            "exec",
            sys.executable,
            "-c",
            f"'{SCRIPT}'",
            "measure card.yaml -- sh -c 'exit 4' >&- 2>&-",
        ]
    )
    process = subprocess.run(["sh", "-c", command], cwd=bare_machine.folder, env=bare_machine.variables, timeout=60)
    assert process.returncode == 4


def test_secrets_of_the_command_are_not_kept(bare_machine):
    ended = bare_machine.measure(
        "--", "sh", "-c", "exit 0", "--api-key", "topsecret1", "--token=topsecret2", "hf_abcdefghijklmnop",
        "https://user:topsecret3@example.org/x", "--max-tokens", "512", "--tokenizer=qwen",
    )  # fmt: skip
    kept = json.dumps(ended.run) + (ended.folder / "environment.json").read_text() + json.dumps(ended.record)
    assert "topsecret" not in kept
    assert "hf_abcdef" not in kept
    assert ended.run["command"][-3:] == ["--max-tokens", "512", "--tokenizer=qwen"]


def test_input_reaches_the_command_and_an_argument_need_not_be_utf_8(bare_machine):
    (bare_machine.folder / "input").write_bytes(b"\x00\xffwords")
    with (bare_machine.folder / "input").open("rb") as file:
        ended = bare_machine.measure("--", "sh", "-c", "cat; exit 3", os.fsdecode(b"\xff\xfe"), stdin=file)
    assert (ended.code, ended.out) == (3, b"\x00\xffwords")
    assert b"Traceback" not in ended.err
    assert ended.run["command"][-1] == "\ufffd\ufffd"


def test_a_failure_that_a_script_hides_is_none_the_less_one(bare_machine):
    said = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 44.5 GiB"
    )
    ended = bare_machine.measure("--", "sh", "-c", f"echo '{said}' >&2; exit 0")
    assert ended.code == 0
    assert ended.run["outcome"] == "failed"
    assert "measure.failure-printed" in ended.codes()


def test_phases_that_a_program_says_of_itself_are_in_the_record(bare_machine):
    (bare_machine.folder / "inside.py").write_text(
        "import capienza.measure, time\n"
        "with capienza.measure.phase('load'):\n    x = bytearray(40_000_000); time.sleep(0.3)\n"
        "with capienza.measure.phase('decode'):\n    y = bytearray(20_000_000); time.sleep(0.3)\n"
    )
    ended = bare_machine.measure("--", sys.executable, "inside.py")
    assert ended.code == 0, ended.err.decode()
    peaks = {(one["phase"], one["counter"]): one["value"] for one in ended.run["peaks"]}
    # On a busy machine the first reading after the load may be one of the decode.
    assert peaks["decode", "rss"] >= peaks["load", "rss"] > 40_000_000
    assert peaks["decode", "resident"] >= peaks["load", "resident"] + 19_000_000
    kept = {(c["phase"], c["counter"]) for c in ended.record["claims"] if c["quantity"] == "host_peak_bytes"}
    assert {("load", "rss"), ("decode", "rss"), ("load", "resident"), ("decode", "resident")} <= kept


def test_a_measured_run_within_a_measured_run(bare_machine):
    inner = [sys.executable, "-c", SCRIPT, "measure", "card.yaml", "--", "sh", "-c", "echo deep; exit 5"]
    ended = bare_machine.measure("--", *inner)
    assert (ended.code, ended.out) == (5, b"deep\n")
    assert len(list((bare_machine.folder / "runs").iterdir())) == 2


def test_a_signal_that_was_ignored_before_stays_ignored(bare_machine):
    script = "import os,signal,sys; sys.exit(0 if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else 9)"
    command = f"trap '' HUP; exec {sys.executable} -c '{SCRIPT}' measure card.yaml -- {sys.executable} -c '{script}'"
    process = subprocess.run(["sh", "-c", command], cwd=bare_machine.folder, env=bare_machine.variables, timeout=60)
    assert process.returncode == 0
