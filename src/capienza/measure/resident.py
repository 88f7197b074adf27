"""Resident memory of this process: the kernel's own highest value, begun anew at each phase.

Legend: VmHWM the highest resident size since it was last reset, in KiB; "5" written to `clear_refs` resets it to what
is resident now (Linux, proc(5)). Resident memory is not what an allocator gave out: it holds code, mapped files and
what was freed but not returned, and leaves out what was given out but never touched.
"""

from __future__ import annotations

import os
import re

from capienza.measure.meter import HOST, Meter

STATUS, CLEAR = "/proc/self/status", "/proc/self/clear_refs"
PEAK = Meter("resident", HOST, f"VmHWM of {STATUS}, reset through {CLEAR}")
NOW = Meter("resident_at_end", HOST, f"VmRSS of {STATUS} as the phase ends")
"""Where the kernel does not let the highest value be reset."""
NAMES = (PEAK.name, NOW.name)
HIGHEST = re.compile(rb"^VmHWM:\s+([0-9]+) kB$", re.MULTILINE)
CURRENT = re.compile(rb"^VmRSS:\s+([0-9]+) kB$", re.MULTILINE)


def take() -> dict[Meter, int]:
    """The highest resident bytes since the last call; empty where the system has no such files."""
    try:
        status = _read(STATUS)
    except OSError:
        return {}
    meter, pattern = (PEAK, HIGHEST) if _reset() else (NOW, CURRENT)
    found = pattern.search(status)
    return {meter: int(found[1]) * 1024} if found else {}


def restart() -> None:
    """Begin anew without reading: what there was belongs to nobody."""
    _reset()


def _read(path: str) -> bytes:
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, 65536)
    finally:
        os.close(file)


def _reset() -> bool:
    try:
        file = os.open(CLEAR, os.O_WRONLY)
    except OSError:
        return False
    try:
        os.write(file, b"5")
    except OSError:
        return False
    finally:
        os.close(file)
    return True
