"""The command: started as it is, its output passed on byte by byte, its end reported as a shell would.

Each stream has a thread of its own, as wide a pipe as the system gives, and one piece of bounded size in memory. What
was read is passed on first, then appended to the log, then handed to whoever reads along. A reader of ours that goes
away (`| head`) makes us close the command's stream, which tells the command the same. Signals that reach us alone are
passed on; Ctrl-C reaches the command by itself, because it is in our group.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any

from capienza.errors import Message, template

PIECE_BYTES = 1024 * 1024
SILENT_SECONDS = 1.0
"""How long a pipe is still listened to after the command ended, when a process left behind holds it open."""
FORWARDED = ("SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
NOT_STARTED, NOT_FOUND = 125, 127

LOG_CUT = template(
    "measure.log-cut",
    "the log holds only the first {kept_bytes} of the output: {problem}",
    "make room on that disk; the output itself was passed on in full",
)
READER_GONE = template("measure.reader-gone", "whoever read {stream} went away during the run")
LEFT_BEHIND = template("measure.left-behind", "a process that the command left behind still holds {stream} open")
Taken = Callable[[int, bytes], None]


class Pump:
    """Passes one stream on. `stream` is 1 for standard output, 2 for standard error."""

    def __init__(self, stream: int, pipe: int, log: Log, taken: Taken) -> None:
        self.stream = stream
        self.notes: list[Message] = []
        self.last = time.monotonic()
        self._pipe, self._log, self._taken = pipe, log, taken
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            while piece := os.read(self._pipe, PIECE_BYTES):
                self.last = time.monotonic()
                is_read = self._pass_on(piece)
                self._log.write(piece)
                self._taken(self.stream, piece)
                if not is_read:
                    self.notes.append(READER_GONE(stream=("stdout", "stderr")[self.stream - 1]))
                    break
        except OSError:
            pass
        with contextlib.suppress(OSError):
            os.close(self._pipe)

    def _pass_on(self, piece: bytes) -> bool:
        view = memoryview(piece)
        while view:
            try:
                view = view[os.write(self.stream, view) :]
            except BlockingIOError:  # a terminal or pipe that somebody else set not to block
                time.sleep(0.01)
            except OSError:
                return False
        return True


class Log:
    """The command's raw output, appended as it comes. A disk that refuses ends the log, not the run."""

    def __init__(self, file: int) -> None:
        self.kept_bytes = 0
        self.problem: Message | None = None
        self._is_closed = False
        self._file = file
        self._lock = threading.Lock()

    def write(self, piece: bytes) -> None:
        """Append a piece, unless an earlier one found no room."""
        with self._lock:
            view = memoryview(piece)
            while view and self.problem is None and not self._is_closed:
                try:
                    written = os.write(self._file, view)
                except OSError as error:
                    self.problem = LOG_CUT(kept_bytes=self.kept_bytes, problem=os.strerror(error.errno or 0))
                else:
                    self.kept_bytes += written
                    view = view[written:]

    def sync(self) -> None:
        """Bring it to the disk."""
        with contextlib.suppress(OSError):
            os.fsync(self._file)

    def close(self) -> None:
        """Bring it to the disk and close it; what a process left behind writes later is not kept."""
        self.sync()
        with self._lock:
            self._is_closed = True
            os.close(self._file)


class Child:
    """A running command with its two pumps."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Log, taken: Taken) -> None:
        """Start it. Raises `OSError` when there is no such program, or it may not be run."""
        self.interrupts = 0
        self.process: subprocess.Popen[bytes] | None = None
        self._handlers = self._passing_signals()
        outputs = [os.pipe(), os.pipe()]
        for _, write_end in outputs:
            _widen(write_end)
        try:
            self.process = subprocess.Popen(
                command,
                stdout=outputs[0][1],
                stderr=outputs[1][1],
                env=environment,
                preexec_fn=_dies_with_us(),
            )
        except BaseException:
            for read_end, _ in outputs:
                os.close(read_end)
            self._restore_signals()
            raise
        finally:
            for _, write_end in outputs:
                os.close(write_end)
        self._pumps = [Pump(stream, outputs[stream - 1][0], log, taken) for stream in (1, 2)]

    @property
    def pid(self) -> int:
        """The number of its process."""
        assert self.process is not None
        return self.process.pid

    def wait(self) -> int:
        """The exit code as a shell gives it: 128 and the signal's number for one that a signal ended."""
        assert self.process is not None
        try:
            code = self.process.wait()
            self._drain()
        finally:
            self._restore_signals()
        return code if code >= 0 else 128 - code

    @property
    def notes(self) -> list[Message]:
        """What must be known about its streams."""
        return [note for pump in self._pumps for note in pump.notes]

    def _drain(self) -> None:
        """All that was written before the end; a pipe that stays open is let go once it is silent."""
        ended = time.monotonic()
        for pump in self._pumps:
            while pump.thread.is_alive():
                pump.thread.join(0.05)
                if time.monotonic() - max(pump.last, ended) > SILENT_SECONDS and pump.thread.is_alive():
                    pump.notes.append(LEFT_BEHIND(stream=("stdout", "stderr")[pump.stream - 1]))
                    break

    def _passing_signals(self) -> dict[int, Any]:
        """Take the signals that are meant for the command. Only a main thread can."""
        if threading.current_thread() is not threading.main_thread():
            return {}
        named = [getattr(signal, name) for name in FORWARDED if hasattr(signal, name)]
        wanted = {**dict.fromkeys(named, self._forward), signal.SIGINT: self._interrupted}
        # One that was ignored when we were started (nohup, a job in the background) the command ignores as well.
        heard = {number: handler for number, handler in wanted.items() if signal.getsignal(number) != signal.SIG_IGN}
        return {number: signal.signal(number, handler) for number, handler in heard.items()}

    def _restore_signals(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _forward(self, number: int, _: FrameType | None) -> None:
        if self.process is not None:
            with contextlib.suppress(OSError):
                self.process.send_signal(number)

    def _interrupted(self, _number: int, _: FrameType | None) -> None:
        self.interrupts += 1


def _widen(pipe: int) -> None:
    if sys.platform == "linux":
        import fcntl

        with contextlib.suppress(OSError):
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIECE_BYTES)


def _dies_with_us() -> Callable[[], None] | None:
    """On Linux: the command is asked to end when we are killed, for nobody would read its output any more."""
    if sys.platform != "linux":
        return None
    import ctypes

    try:
        prctl = ctypes.CDLL(None, use_errno=True).prctl
    except (OSError, AttributeError):
        return None
    return lambda: prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
