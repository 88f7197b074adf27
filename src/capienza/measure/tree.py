"""The processes of a command: which they are, and the memory they hold in the host.

Legend: RSS, the resident set: pages of a process in memory; the sum over processes counts a shared page once for each.
Linux is read from /proc, a few small files a time; elsewhere psutil is asked.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

PROC = Path("/proc")
RUN_VARIABLE = "CAPIENZA_RUN"
MAX_PROCESSES = 4096
RSS_CALL = "resident set, sum over the command's processes"
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


class Tree:
    """The command's processes: its first one and all that descend from it, or carry the run's variable."""

    def __init__(self, pid: int, run: str) -> None:
        self.pid = pid
        self._mark = f"{RUN_VARIABLE}={run}".encode()
        self._pids: tuple[int, ...] = (pid,)
        self._owned: dict[int, bool] = {}

    def look(self) -> None:
        """Find the processes that there are now."""
        self._pids = tuple(_descendants(self.pid))

    def rss_bytes(self) -> int | None:
        """The sum of the resident sets; None when no process of the command is left."""
        sizes = [size for pid in self._pids if (size := _rss(pid)) is not None]
        return sum(sizes) if sizes else None

    def owns(self, pid: int) -> bool | None:
        """Is it a process of the command? None when no process of that number can be seen from here."""
        known = self._owned.get(pid)
        if known is not None:
            return known
        if not _exists(pid):
            return None
        found = pid == self.pid or pid in self._pids or self._carries_mark(pid) or pid in _descendants(self.pid)
        if len(self._owned) < MAX_PROCESSES:
            self._owned[pid] = found
        return found

    def _carries_mark(self, pid: int) -> bool:
        try:
            with (PROC / str(pid) / "environ").open("rb") as file:
                return self._mark in file.read(1 << 20).split(b"\0")
        except OSError:
            return False


def name_of(pid: int) -> str:
    """The program's short name; empty when it cannot be seen."""
    try:
        return (PROC / str(pid) / "comm").read_text(errors="replace").strip()[:64]
    except OSError:
        return ""


def _exists(pid: int) -> bool:
    if PROC.is_dir():
        return (PROC / str(pid)).is_dir()
    psutil = _psutil()
    return psutil is not None and bool(psutil.pid_exists(pid))


def _psutil() -> Any:
    """Psutil where /proc is not; None where it is not installed, and then nothing is known."""
    try:
        import psutil  # type: ignore[import-untyped]
    except ImportError:
        return None
    return psutil


def _descendants(pid: int) -> list[int]:
    """The process and all below it."""
    found: list[int] = []
    waiting = [pid]
    while waiting and len(found) < MAX_PROCESSES:
        current = waiting.pop()
        found.append(current)
        waiting += _children(current)
    return found


def _children(pid: int) -> list[int]:
    tasks = PROC / str(pid) / "task"
    children: list[int] = []
    try:
        for task in os.scandir(tasks):
            with open(f"{task.path}/children") as file:  # noqa: PTH123 - ten times a second
                children += map(int, file.read().split())
    except OSError:
        if not PROC.is_dir():
            return _children_elsewhere(pid)
    return children


def _children_elsewhere(pid: int) -> list[int]:
    psutil = _psutil()
    if psutil is None:
        return []
    try:
        return [child.pid for child in psutil.Process(pid).children()]
    except psutil.Error:
        return []


def _rss(pid: int) -> int | None:
    try:
        with open(f"{PROC}/{pid}/statm", "rb") as file:  # noqa: PTH123 - ten times a second
            pages = int(file.read(200).split()[1])
            return pages * _PAGE if pages else None  # one that has ended and is not yet reaped holds nothing
    except (OSError, ValueError, IndexError):
        return None if PROC.is_dir() else _rss_elsewhere(pid)


def _rss_elsewhere(pid: int) -> int | None:
    psutil = _psutil()
    if psutil is None:
        return None
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return None
