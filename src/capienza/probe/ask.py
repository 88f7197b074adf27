"""Run a program of the driver: within a time, within a size, and never longer than that whatever the program does."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from typing import IO

import msgspec

from capienza.errors import Message, template

ABSENT = template("probe.absent", "{program} is not installed here, so nothing was asked of it")
DENIED = template(
    "probe.denied", "{program} may not be run: {reason}", "run it as the user who may, or ask the administrator"
)
TOO_SLOW = template(
    "probe.too-slow",
    "{program} did not answer within {seconds} s and was stopped",
    "the driver may hang: look at the system's log",
)
TOO_LONG = template("probe.too-long", "{program} wrote more than {limit} bytes and was stopped")
FAILED = template(
    "probe.failed", "{program} ended with code {code}: {said}", "what it says is the driver's own message"
)

SECONDS = 10.0
MAX_BYTES = 1024 * 1024
GRACE_SECONDS = 1.0
"""How long a stopped program is waited for; one that the kernel holds is left behind."""


class Answer(msgspec.Struct, frozen=True):
    """What a program wrote; `problem` says why it is not to be trusted, or not there."""

    text: str = ""
    problem: Message | None = None


def ask(command: Sequence[str], seconds: float | None = None, max_bytes: int = MAX_BYTES) -> Answer:
    """Run a program and return what it wrote on both streams. Nothing that the program does raises."""
    program, seconds = command[0], SECONDS if seconds is None else seconds
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "LC_ALL": "C"},
            start_new_session=True,
        )
    except FileNotFoundError:
        return Answer(problem=ABSENT(program=program))
    except (OSError, ValueError) as error:
        return Answer(problem=DENIED(program=program, reason=getattr(error, "strerror", None) or str(error)))
    assert process.stdout is not None
    written = bytearray()
    # A thread reads, so that neither a silent program nor a child that keeps the pipe open holds us up.
    reader = threading.Thread(target=_read, args=(process.stdout, written, max_bytes), daemon=True)
    reader.start()
    reader.join(seconds)
    if reader.is_alive():
        _stop(process)
        return Answer(problem=TOO_SLOW(program=program, seconds=f"{seconds:g}"))
    if len(written) > max_bytes:
        _stop(process)
        return Answer(problem=TOO_LONG(program=program, limit=max_bytes))
    try:
        code = process.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        _stop(process)
        return Answer(problem=TOO_SLOW(program=program, seconds=f"{seconds:g}"))
    text = written.decode(errors="replace")
    if code != 0:
        said = next((line.strip()[:200] for line in text.splitlines() if line.strip()), "-")
        return Answer(text, FAILED(program=program, code=code, said=said))
    return Answer(text)


def _read(pipe: IO[bytes], written: bytearray, max_bytes: int) -> None:
    with contextlib.suppress(OSError, ValueError), pipe:
        while len(written) <= max_bytes and (piece := pipe.read1(65536)):  # type: ignore[attr-defined]
            written += piece


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the program with all that it started."""
    with contextlib.suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_SECONDS)
