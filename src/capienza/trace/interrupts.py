"""Ctrl-C while a program is traced: it waits until nothing is left half changed.

PyTorch calls Python from C++ that no error may leave, where an interrupt would abort the process, and from callbacks
whose errors are printed and forgotten. One that comes there, or while something is put in place or taken away, is
raised at the next operation, or when all is put back. A second one is raised where it comes.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from capienza.trace.tracker import Tracker
from capienza.trace.watch import may_stop


@contextlib.contextmanager
def held_back(tracker: Tracker) -> Iterator[None]:
    """Inside, an interrupt waits. A program that is traced in another thread, or has its own handler, is left alone."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is not signal.default_int_handler:
        yield
        return

    def noted(_signal: int, frame: FrameType | None) -> None:
        waits = tracker.broken is None and not may_stop(frame)
        tracker.broken = KeyboardInterrupt()
        if not waits:
            raise tracker.broken

    signal.signal(signal.SIGINT, noted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        # PyTorch may have made another error of it.
        if isinstance(tracker.broken, KeyboardInterrupt):
            raise tracker.broken
