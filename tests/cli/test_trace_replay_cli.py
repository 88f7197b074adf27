"""`capienza trace replay`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from capienza.allocator.events import ALLOC, FREE, Event
from capienza.allocator.writing import make_snapshot, write_snapshot

MIB = 2**20
PROGRAM: list[Event] = [(ALLOC, 1, 20 * MIB, 0), (FREE, 1, 0, 0), (ALLOC, 2, 30 * MIB, 0)]


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """A snapshot of a small program."""
    path = tmp_path / "snapshot.pickle"
    write_snapshot(path, make_snapshot(PROGRAM))
    return path


def test_model_and_record_agree(capienza: Callable[..., object], snapshot: Path) -> None:
    code, out, _ = capienza("trace", "replay", snapshot, "--settings", "expandable_segments:True")
    assert code == 0
    assert "Model and recording agree" in out
    assert "2 of 2" in out
    rows = [line.split("  ") for line in out.splitlines() if "smallest capacity" in line]
    assert [cell.strip() for cell in rows[0] if cell.strip()][1:] == ["30.00 MiB", "40.00 MiB"]


def test_as_json(capienza: Callable[..., object], snapshot: Path) -> None:
    code, out, _ = capienza("trace", "replay", snapshot, "--json")
    found = json.loads(out)
    assert (code, found["schema"]) == (0, "capienza.trace-replay/1")
    (device,) = found["devices"]
    assert device["same"] is True
    assert device["recorded"] == device["modelled"]
    assert device["program"]["smallest_capacity_bytes"] == 30 * MIB
    assert device["program"]["out_of_memory"]["free_bytes"] == 28 * MIB
    assert device["program_with_settings"] is None


def test_differences_and_notes_are_told(capienza: Callable[..., object], tmp_path: Path) -> None:
    made = make_snapshot(PROGRAM)
    trace = made["device_traces"][0]
    trace[0]["size"] = 22 * MIB
    made["device_traces"] = [trace, [dict(line, action="odd") for line in trace[:1]]]
    path = tmp_path / "odd.pickle"
    write_snapshot(path, made)
    code, out, _ = capienza("trace", "replay", path, "--lang", "it")
    assert code == 0
    assert "segment_alloc 22.00 MiB" in out.replace(",", ".")
    assert "odd (1)" in out
    assert "GPU 1" in out


@pytest.mark.parametrize(("content", "named"), [(b"hello", "begins with b'hello'"), (b"\x80\x04.", "byte 3 of 3")])
def test_bad_files_exit_3(capienza: Callable[..., object], tmp_path: Path, content: bytes, named: str) -> None:
    path = tmp_path / "bad.pickle"
    path.write_bytes(content)
    code, out, err = capienza("trace", "replay", path)
    assert (code, out) == (3, "")
    assert str(path) in err
    assert named in err


def test_settings_that_are_off_exit_2(capienza: Callable[..., object], snapshot: Path) -> None:
    code, _, err = capienza("trace", "replay", snapshot, "--settings", "max_split_size_mb:3")
    assert code == 2
    assert "--settings" in err
    assert ">= 20" in err


def test_a_missing_file_exits_4(capienza: Callable[..., object], tmp_path: Path) -> None:
    assert capienza("trace", "replay", tmp_path / "none")[0] == 4
