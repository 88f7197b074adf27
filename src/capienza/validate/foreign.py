"""Files of measured runs in other people's forms, told by how they begin: JSON profiles, CSV tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from capienza.validate.scored import Scored
from capienza.yamlmarks.source import open_file

MOST_BYTES = 64 * 2**20
FIRST_BYTES = 4096


def foreign_rows(path: str) -> Iterator[Scored] | None:
    """The entries of a file in a form of its own; None for a file of cases, one a line."""
    with open_file(Path(path)) as file:
        start = file.read(FIRST_BYTES)
        is_document = start.lstrip()[:1] == b"{" and b'"knobs"' not in start.split(b"\n", 1)[0]
        is_table = b"measured_max_mem_bytes" in start.split(b"\n", 1)[0]
        if not is_document and not is_table:
            return None
        whole = start + file.read(MOST_BYTES)
    if is_table:
        return _table(whole)
    return _document(whole, Path(path).name)


def _table(whole: bytes) -> Iterator[Scored] | None:
    from capienza.validate.pipeline_runs import is_runs, run_rows

    try:
        text = whole.decode()
    except UnicodeDecodeError:
        return None
    return run_rows(text) if is_runs(text.split("\n", 1)[0]) else None


def _document(whole: bytes, name: str) -> Iterator[Scored] | None:
    from capienza.validate.rl_profiles import is_profile, profile_rows

    try:
        document = msgspec.json.decode(whole)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    return profile_rows(document, name) if is_profile(document) else None
