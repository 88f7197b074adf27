"""A traced program is stopped at its limit whatever it does: between two operations nothing else would look.

On the main thread a signal ends a call that waits, and its handler raises; on another thread the interpreter is told to
raise at the next bytecode, which a call that waits in C does not reach. Neither comes while PyTorch, this library or a
context manager runs: what they changed they would leave so. A program that goes on nevertheless, as a loop with a bare
`except` does, meets the error again at every line after a while.

Bound to CPython: PyThreadState_SetAsyncExc, and PyEval_SetTrace with PyObject_IsTrue as what is called at every line
(an error of a trace function set with `sys.settrace` would end the tracing).
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, TypeVar

from capienza.trace.swap import swapped

Result = TypeVar("Result")
EVERY_S, GENTLE_S = 0.02, 1.0
"""How often a program past its limit is told to stop, and after how long at every line."""
LEFT_ALONE = frozenset({"torch", "capienza", "contextlib", "importlib", "weakref", "_weakrefset", "sympy", "numpy"})
SIGNAL = getattr(signal, "SIGURG", None)
"""One that is ignored by default, so that a stray one does no harm."""

_start = threading.Thread.start
_raise_in = ctypes.pythonapi["PyThreadState_SetAsyncExc"]
_raise_in.argtypes = (ctypes.c_ulong, ctypes.py_object)
_call_at_lines = ctypes.pythonapi["PyEval_SetTrace"]
_call_at_lines.argtypes = (ctypes.c_void_p, ctypes.py_object)
_is_true = ctypes.cast(ctypes.pythonapi["PyObject_IsTrue"], ctypes.c_void_p)


class TraceLimit(BaseException):
    """The limit of operations or of time is reached. No error of the program: nothing in it may catch this."""


class Watch:
    """The limit of one traced program, whose pieces are called with `run`."""

    def __init__(self, most_seconds: float = 0) -> None:
        self.most_seconds = most_seconds or math.inf
        self.is_over = False
        """The limit is reached. Whoever sees it raises `TraceLimit`."""
        self.is_open = False
        """A piece of the program runs."""
        self._has_raised = False
        """Something may be on its way to a thread that is not the main one."""
        self._wake = threading.Event()
        self._ends_at = self._insists_at = math.inf

    def end(self) -> TraceLimit:
        """Another limit is reached; what to raise."""
        self.is_over = True
        self._wake.set()
        return TraceLimit()

    def run(self, piece: Callable[[], Result]) -> Result:
        """Call a piece of the program. Raises `TraceLimit` where the limit is reached, even if the piece has ended."""
        if self.is_over:
            raise TraceLimit
        if self._ends_at == math.inf:
            self._ends_at = time.monotonic() + self.most_seconds
        traced_before = sys.gettrace()
        self._wake.clear()
        with self._listening() as tell, swapped(sys, "unraisablehook", _unless_a_limit(sys.unraisablehook)):
            clock = threading.Thread(target=self._tick, args=(tell,), daemon=True)
            self.is_open = True
            try:
                _start(clock)
                found = piece()
            finally:
                self._close(clock)
                if sys.gettrace() is not traced_before:
                    sys.settrace(traced_before)
        if self.is_over:
            raise TraceLimit
        return found

    def _tick(self, tell: Callable[[], None]) -> None:
        """What the clock's thread does: wait for the limit, then tell the program until it has ended."""
        rest = self._ends_at - time.monotonic()
        self._wake.wait(None if rest > threading.TIMEOUT_MAX else max(0.0, rest))
        while self.is_open:
            self.is_over = True
            tell()
            time.sleep(EVERY_S)

    def _close(self, clock: threading.Thread) -> None:
        """From here on nothing is raised any more, nor is anything on its way."""
        while True:
            try:
                self.is_open = False
                self._wake.set()
                clock.join()
                if self._has_raised:
                    _take_what_is_raised()
            except TraceLimit:
                continue
            return

    @contextlib.contextmanager
    def _listening(self) -> Iterator[Callable[[], None]]:
        """What tells this thread to stop."""
        me = threading.get_ident()
        if SIGNAL is None or threading.current_thread() is not threading.main_thread():
            yield lambda: self._raise_in(me)
            return
        before = signal.signal(SIGNAL, self._signalled)
        try:
            yield lambda: signal.pthread_kill(me, SIGNAL)
        finally:
            signal.signal(SIGNAL, signal.SIG_DFL if before is None else before)

    def _signalled(self, _signal: int, frame: FrameType | None) -> None:
        if self.is_open and self.is_over:
            if self._is_late():
                self._insist()
            if may_stop(frame):
                self._told()
                raise TraceLimit

    def _raise_in(self, thread: int) -> None:
        if may_stop(sys._current_frames().get(thread)):
            # A class is called in the thread that catches it.
            again = type("Again", (TraceLimit,), {"__init__": self._insist})
            self._has_raised = True
            _raise_in(thread, again if self._is_late() else TraceLimit)
            self._told()

    def _told(self) -> None:
        """The program has been told once, and may put things in order for a while."""
        self._insists_at = min(self._insists_at, time.monotonic() + GENTLE_S)

    def _is_late(self) -> bool:
        return time.monotonic() > self._insists_at

    def _insist(self, *_error: object) -> None:
        """Raise at every line of the program in this thread."""
        _call_at_lines(_is_true, _Line(self))

    def stops_here(self, frame: FrameType) -> bool:
        """Is this a line at which a program past its limit is stopped?"""
        return self.is_open and self.is_over and may_stop(frame)


class _Line:
    """What CPython asks at every line; the answer no lets it go on."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch

    def __bool__(self) -> bool:
        if self.watch.stops_here(sys._getframe(1)):
            raise TraceLimit
        return False


def _take_what_is_raised() -> None:
    """Nothing is on its way to this thread after that. To raise nothing would leave CPython's flag up for ever."""
    with contextlib.suppress(TraceLimit):
        _raise_in(threading.get_ident(), TraceLimit)
        while True:
            pass


def may_stop(frame: FrameType | None) -> bool:
    """Is this a place where nothing is left changed by an error, and none is lost?"""
    if frame is None or str(frame.f_globals.get("__name__")).partition(".")[0] in LEFT_ALONE:
        return False
    # What the collector calls cannot pass an error on.
    return frame.f_code not in {getattr(call, "__code__", None) for call in gc.callbacks}


def _unless_a_limit(hook: Callable[[Any], object]) -> Callable[[Any], object]:
    """Where an error cannot be passed on, as in a destructor, it is printed; not this one."""

    def told(unraisable: Any) -> None:
        if not isinstance(unraisable.exc_value, TraceLimit):
            hook(unraisable)

    return told
