"""Hands inputs to a worker process and gets their outcomes, even when the worker hangs or dies."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Self

from fuzzing.mutate import Case
from fuzzing.seeds import lay_out
from fuzzing.trial import Outcome
from fuzzing.worker import READY

HANGS_AFTER_S = 30
STARTS_WITHIN_S = 120
PROGRAM = Path(__file__).resolve().parents[1] / "fuzz.py"


class Runner:
    """One kind of input; the worker is started when it is needed, and again after it ended."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.folder = tempfile.TemporaryDirectory(prefix="capienza-fuzz-")
        self.worker: subprocess.Popen[bytes] | None = None
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.errors.close()
        self.folder.cleanup()

    def try_case(self, case: Case, argv: list[str] | None) -> Outcome:
        """The outcome of one input; with `argv` also through that command line."""
        worker = self.worker or self.start()
        assert worker.stdin
        lay_out(case.files, Path(self.folder.name))
        worker.stdin.write(json.dumps([case.target, argv]).encode() + b"\n")
        worker.stdin.flush()
        line = self._line(worker, HANGS_AFTER_S)
        if line is None:
            self.stop()
            return Outcome("hang", f"for {HANGS_AFTER_S} s")
        if not line:
            code = worker.wait()
            self.stop()
            return Outcome("died", f"worker ended with {code}", self._told())
        outcome, drifted = json.loads(line)
        if drifted:
            self.stop()
        return Outcome(*outcome)

    def start(self) -> subprocess.Popen[bytes]:
        """A new worker, warm. Raises `SystemExit` when the sound inputs are not accepted."""
        self.worker = subprocess.Popen(
            [sys.executable, PROGRAM, "--worker", self.kind, "--out", self.folder.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
        )
        if (self._line(self.worker, STARTS_WITHIN_S) or b"").decode() != READY:
            self.stop()
            sys.exit(self._told())
        return self.worker

    def stop(self) -> None:
        """End the worker, if there is one."""
        if self.worker is None:
            return
        self.worker.kill()
        self.worker.wait()
        for pipe in (self.worker.stdin, self.worker.stdout):
            if pipe:
                pipe.close()
        self.worker = None

    def _line(self, worker: subprocess.Popen[bytes], limit_s: float) -> bytes | None:
        """The next line; empty when the worker ended, None when it says nothing for too long."""
        assert worker.stdout
        with selectors.DefaultSelector() as waiting:
            waiting.register(worker.stdout, selectors.EVENT_READ)
            line = b""
            while not line.endswith(b"\n"):
                if not waiting.select(limit_s):
                    return None
                piece = os.read(worker.stdout.fileno(), 1 << 16)
                if not piece:
                    return b""
                line += piece
        return line.strip()

    def _told(self) -> str:
        self.errors.seek(0)
        return self.errors.read()[-3000:].decode(errors="replace")
