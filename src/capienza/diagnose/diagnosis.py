"""The answer of `diagnose`. Sizes are bytes; None is "not in the log", never zero."""

from __future__ import annotations

from typing import Literal

import msgspec

from capienza.errors import Message
from capienza.logs.said import Memory

Confidence = Literal["high", "medium", "low"]
SIZES = (
    "requested_bytes", "total_bytes", "free_bytes", "allocated_bytes", "reserved_unallocated_bytes",
    "reserved_total_bytes", "other_process_bytes",
)  # fmt: skip


class Seen(msgspec.Struct, frozen=True):
    """A kind of failing line: the first of its lines, how many there are, and the last."""

    code: str
    line: int
    text: str
    count: int
    last_line: int
    is_fatal: bool


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """What a log says about its failure.

    `phase_line` and `phase_evidence` are the line that tells the phase; `explains` holds the arithmetic, `examine` what
    to look at, `keep` what must not be changed in silence. `log` is the name of the file.
    """

    log: str
    is_failure: bool
    phase: str = "unknown"
    cause: str = "unknown"
    memory: Memory = "unknown"
    is_fatal: bool = False
    detail: str | None = None
    requested_bytes: int | None = None
    total_bytes: int | None = None
    free_bytes: int | None = None
    allocated_bytes: int | None = None
    reserved_unallocated_bytes: int | None = None
    reserved_total_bytes: int | None = None
    other_process_bytes: int | None = None
    gpu_index: int | None = None
    evidence: str = ""
    evidence_line: int | None = None
    evidence_lines: int = 0
    last_line: int | None = None
    phase_evidence: str = ""
    phase_line: int | None = None
    source: str = ""
    confidence: Confidence = "low"
    explains: tuple[Message, ...] = ()
    examine: tuple[Message, ...] = ()
    keep: tuple[Message, ...] = ()
    seen: tuple[Seen, ...] = ()
    lines: int = 0
    notes: tuple[Message, ...] = ()
