"""The records of a folder as JSON: `capienza.evidence-list/1` and its kin."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from capienza.canon import plain
from capienza.errors import CapienzaError, Message
from capienza.evidence.record import Record
from capienza.evidence.survey import Surveyed
from capienza.records.classes import class_of
from capienza.report.messages import message_data
from capienza.report.tool import TOOL


def added_data(record: Record, path: Path, is_new: bool, notes: tuple[Message, ...]) -> dict[str, Any]:
    """What was added."""
    return {
        "schema": "capienza.evidence-add/1",
        "tool": TOOL,
        "is_new": is_new,
        "path": str(path),
        "record": plain(record),
        "notes": [message_data(note) for note in notes],
    }


def list_data(rows: Iterable[Surveyed], now: datetime.datetime, findings: tuple[Message, ...]) -> dict[str, Any]:
    """Every record in full with its standing."""
    return {
        "schema": "capienza.evidence-list/1",
        "tool": TOOL,
        "now": now,
        "records": [_row_data(row) for row in rows],
        "findings": [message_data(finding) for finding in findings],
    }


def show_data(row: Surveyed, referring: Iterable[Record], path: Path) -> dict[str, Any]:
    """One record and what refers to it."""
    return {
        "schema": "capienza.evidence-record/1",
        "tool": TOOL,
        "path": str(path),
        **_row_data(row),
        "referring": [other.id for other in referring],
    }


def verify_data(
    count: int,
    root: str,
    problems: tuple[CapienzaError, ...],
    rechecked: tuple[str, ...],
    not_rechecked: tuple[Message, ...],
    findings: tuple[Message, ...],
) -> dict[str, Any]:
    """The result of `evidence verify`."""
    return {
        "schema": "capienza.evidence-verify/1",
        "tool": TOOL,
        "ok": not problems,
        "records": count,
        "root": root,
        "problems": [row for problem in problems for row in problem.as_dict()],
        "rechecked": rechecked,
        "not_rechecked": [message_data(message) for message in not_rechecked],
        "findings": [message_data(finding) for finding in findings],
    }


def export_data(folder: Path, count: int, root: str) -> dict[str, Any]:
    """The result of `evidence export`."""
    return {"schema": "capienza.evidence-export/1", "tool": TOOL, "folder": str(folder), "records": count, "root": root}


def _row_data(row: Surveyed) -> dict[str, Any]:
    return {
        "class": class_of(row.record),
        "standing": row.state,
        "reasons": [message_data(reason) for reason in row.reasons],
        "record": plain(row.record),
    }
