"""What a process counts about itself: one counter, and the peaks of all of them since they were last taken."""

from __future__ import annotations

from typing import NamedTuple


class Meter(NamedTuple):
    """One counter of this process, always in bytes. `device` is the digest of a GPU's UUID."""

    name: str
    scope: str
    source: str
    device: str | None = None


HOST = "host"
"""The scope of what lies in main memory."""
