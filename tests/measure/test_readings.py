"""Raw readings: nothing acknowledged is lost, equal ones are one line, a full disk is survived, parts join."""

from __future__ import annotations

import errno
import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capienza.errors import InputError
from capienza.measure import readings
from capienza.measure.readings import Readings, Writer


def expanded(path):
    """Every reading with its counter and value, in order, by counter."""
    found = {}
    for one in Readings(path).readings():
        found.setdefault(one.counter.scope, []).extend([one.value] * one.count)
    return found


def test_equal_readings_are_one_line(tmp_path):
    path = tmp_path / "readings.jsonl"
    writer = Writer(path)
    used = writer.counter("device", "B", "gpu:0", "nvmlDeviceGetMemoryInfo.used")
    for tenth in range(88):
        writer.read(used, 123, t=1.2 + tenth / 10)
    writer.read(used, 124, t=10.0)
    writer.close()
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert lines[0]["schema"] == "capienza.readings/1"
    assert lines[1:] == [
        {"counter": 0, "name": "device", "unit": "B", "scope": "gpu:0", "source": "nvmlDeviceGetMemoryInfo.used"},
        {"c": 0, "t0": 1.2, "t": 9.9, "n": 88, "v": 123},
        {"c": 0, "t": 10.0, "v": 124},
    ]


@given(
    st.lists(
        st.one_of(st.tuples(st.integers(0, 2), st.integers(0, 3)), st.sampled_from(["flush", "next part"])), max_size=60
    )
)
def test_every_reading_comes_back_in_order(tmp_path_factory, steps):
    path = tmp_path_factory.mktemp("run") / "readings.jsonl"
    writer = Writer(path)
    for gpu in range(3):
        writer.counter("device", "B", f"gpu:{gpu}", "test")
    expected = {}
    for step in steps:
        if step == "flush":
            writer.flush(sync=False)
        elif step == "next part":
            writer.flush(sync=False)
            writer._next_part()
        else:
            writer.read(*step)
            expected.setdefault(f"gpu:{step[0]}", []).append(step[1])
    writer.close()
    assert expanded(path) == expected


def test_what_was_flushed_is_there_without_a_close(tmp_path):
    path = tmp_path / "readings.jsonl"
    writer = Writer(path)
    used = writer.counter("device", "B", "gpu:0", "test")
    writer.read(used, 5)
    writer.flush()
    writer.read(used, 5)
    writer.read(used, 9)
    writer.flush()
    writer.read(used, 10)
    assert expanded(path) == {"gpu:0": [5, 5, 9]}


def test_a_cut_line_is_said_and_what_comes_before_counts(tmp_path):
    path = tmp_path / "readings.jsonl"
    writer = Writer(path)
    writer.read(writer.counter("device", "B", "gpu:0", "test"), 5)
    writer.close()
    with path.open("ab") as file:
        file.write(b'{"c":0,"t":9.9,"v":1234')
    found = Readings(path)
    assert [one.value for one in found.readings()] == [5]
    assert [note.code for note in found.findings] == ["measure.torn-line"]


@pytest.mark.parametrize(
    "line",
    [
        b"nothing",
        b'{"c":7,"t":1,"v":1}',
        b'{"c":0,"t":1}',
        b'{"c":0,"t":1,"v":1,"n":0}',
        b'{"c":0,"t":1,"v":"1"}',
        b"[]",
    ],
)
def test_a_line_that_is_none_is_named(tmp_path, line):
    path = tmp_path / "readings.jsonl"
    writer = Writer(path)
    writer.counter("device", "B", "gpu:0", "test")
    writer.close()
    with path.open("ab") as file:
        file.write(line + b"\n")
    with pytest.raises(InputError) as caught:
        list(Readings(path).readings())
    assert caught.value.place.line == 3


def test_a_disk_that_fills_and_empties_loses_nothing(tmp_path, monkeypatch):
    path = tmp_path / "readings.jsonl"
    writer = Writer(path)
    used = writer.counter("device", "B", "gpu:0", "test")
    write, room = os.write, [30]

    def full_soon(file, data):
        if not room[0]:
            raise OSError(errno.ENOSPC, "no space left")
        taken = write(file, bytes(data[: room[0]]))
        room[0] -= taken
        return taken

    monkeypatch.setattr(readings.os, "write", full_soon)
    for value in range(50):
        writer.read(used, value)
    for _ in range(2):
        with pytest.raises(OSError, match="no space"):
            writer.flush()
    room[0] = 10**6
    writer.close()
    assert expanded(path) == {"gpu:0": list(range(50))}
    assert writer.lost == 0


def test_memory_is_bounded_while_the_disk_refuses(tmp_path, monkeypatch):
    monkeypatch.setattr(readings, "MAX_PENDING_BYTES", 1000)
    writer = Writer(tmp_path / "readings.jsonl")
    used = writer.counter("device", "B", "gpu:0", "test")
    for value in range(1000):
        writer.read(used, value)
    assert len(writer._pending) <= 1000
    assert writer.lost > 900


def test_a_phase_without_an_end_is_closed_by_its_later_line(tmp_path):
    path = tmp_path / "readings.jsonl"
    writer = Writer(path, rank=1)
    writer.phase("load", 1.0, None, "log")
    writer.phase("backward", 3.2, 3.3, "process", step=4)
    writer.phase("load", 1.0, 2.5, "log")
    writer.close()
    found = Readings(path)
    assert found.header.rank == 1
    assert [(span.phase, span.start, span.end, span.source, span.step) for span in found.phases()] == [
        ("load", 1.0, 2.5, "log", None),
        ("backward", 3.2, 3.3, "process", 4),
    ]
