"""Snapshots: what is read, what is refused, and what PyTorch's own tools make of those written here."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocator.programs import MIB, give, take
from capienza.allocator.compare import compare
from capienza.allocator.events import FREE_REQUESTED, MARK, Event
from capienza.allocator.pickled import read_plain
from capienza.allocator.settings import Settings
from capienza.allocator.snapshot import parse_snapshot, read_snapshot
from capienza.allocator.writing import make_snapshot, write_snapshot
from capienza.errors import InputError, UnreachableError

PROGRAM: list[Event] = [
    (MARK, 0, 0, 0), take(1, 5 * MIB), take(2, 30 * MIB - 3), take(3, 700), *give(1),
    (MARK, 1, 0, 0), take(4, 3 * MIB, 2), (FREE_REQUESTED, 2, 0, 0),
]  # fmt: skip


def snapshot(capacity: int | None = None) -> dict[str, Any]:
    return make_snapshot(
        PROGRAM,
        capacity_bytes=capacity,
        phases=("forward", "backward"),
        frames=lambda event: (f"aten.mm {event}", "layers.0.mlp"),
        category=lambda event: "activation" if event == 1 else None,
    )


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner) | st.tuples(inner, inner)
    ),
)


@given(value=PLAIN, protocol=st.integers(2, 5))
def test_plain_values_are_read_as_python_reads_them(value: Any, protocol: int) -> None:
    assert read_plain(pickle.dumps(value, protocol)) == value


class Evil:
    """Runs something when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (exec, ("raise SystemExit('it was run')",))


class Many:
    """Not a plain value, though harmless."""


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("value", [Evil(), [Evil()], {"segments": Many()}, {1, 2}, b"bytes", print])
def test_anything_else_is_refused_unrun(value: Any, protocol: int) -> None:
    with pytest.raises(InputError) as raised:
        read_plain(pickle.dumps(value, protocol))
    assert raised.value.message.code in ("pickled.refused", "pickled.broken")


@given(data=st.binary(max_size=200))
def test_noise_is_refused(data: bytes) -> None:
    for start in (b"", b"\x80\x04"):
        try:
            read_plain(start + data)
        except InputError:
            continue


@given(cut=st.floats(0, 0.999), flips=st.lists(st.tuples(st.floats(0, 0.999), st.integers(0, 255)), max_size=3))
def test_damaged_pickles_are_refused_or_read(cut: float, flips: list[tuple[float, int]]) -> None:
    whole = bytearray(pickle.dumps(snapshot()))
    with pytest.raises(InputError):
        parse_snapshot(bytes(whole[: int(cut * len(whole))]))
    for place, value in flips:
        whole[int(place * len(whole))] = value
    try:
        found = parse_snapshot(bytes(whole))
    except InputError:
        return
    for device, entries in enumerate(found.device_traces):
        compare(found.segments, entries, Settings(), device)


def test_bombs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("capienza.allocator.pickled.MOST_CONTAINERS", 1000)
    deep = b"\x80\x02" + b"(" * 10_000
    many = b"\x80\x02(" + b"]" * 1001 + b"l."
    far = b"\x80\x02}r" + struct.pack("<I", 2**32 - 1) + b"."
    long = b"\x80\x02\x8b" + struct.pack("<I", 2**31 - 1) + b"1."
    text = b"\x80\x02\x8d" + struct.pack("<Q", 2**63) + b"1."
    for data, code in ((deep, "too-much"), (many, "too-much"), (long, "refused"), (text, "broken")):
        with pytest.raises(InputError) as raised:
            read_plain(data)
        assert raised.value.message.code == f"pickled.{code}"
    assert read_plain(far) == {}


def test_json_of_too_many_lists_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("capienza.allocator.snapshot.MOST_CONTAINERS", 1000)
    with pytest.raises(InputError) as raised:
        parse_snapshot(b'{"segments": [], "traces": [' + b"[]," * 1000 + b"[]]}")
    assert raised.value.message.code == "pickled.too-much"


def test_a_list_in_itself_does_no_harm() -> None:
    with pytest.raises(InputError):
        parse_snapshot(b"\x80\x02]q\x00h\x00a.")
    looped = b"\x80\x02}q\x00(X\x08\x00\x00\x00segmentsh\x00X\x0d\x00\x00\x00device_traces]q\x01h\x01au."
    with pytest.raises(InputError):
        parse_snapshot(looped)


def on_device(device: int) -> dict[str, Any]:
    """A snapshot of one device, whose only segment lies on that device."""
    blocks = [{"size": 512, "state": "inactive"}]
    segment = {"address": 0, "total_size": 512, "blocks": blocks, "device": device}
    return {"segments": [segment], "device_traces": [[{"action": "alloc", "size": 512}]]}


def test_a_segment_of_the_device_that_has_a_history_is_read() -> None:
    assert len(parse_snapshot(pickle.dumps(on_device(0))).segments) == 1


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "snapshot.unknown-form"),
        (b"hello", "snapshot.unknown-form"),
        (b"PK\x03\x04", "snapshot.unknown-form"),
        (b"{", "snapshot.bad-shape"),
        (b"{}", "snapshot.bad-shape"),
        (b'{"segments": [], "device_traces": []}', "snapshot.no-history"),
        (b'{"segments": [], "device_traces": [[]]}', "snapshot.no-history"),
        (pickle.dumps(on_device(1)), "snapshot.other-device"),
        (pickle.dumps(on_device(-1)), "snapshot.other-device"),
        (b'{"segments": [], "traces": [[["alloc", 0, -1, 0]]]}', "snapshot.bad-shape"),
        (b'{"segments": [], "traces": [[["alloc", 0, 1152921504606846976, 0]]]}', "snapshot.bad-shape"),
        (b'{"segments": [], "traces": [[["alloc", 0, 1e3, 0.5]]]}', "snapshot.bad-shape"),
        (b'{"segments": [[1]], "traces": []}', "snapshot.bad-shape"),
        (b'{"segments": ' + b"[" * 100_000, "snapshot.bad-shape"),
        (b'{"a": "\xff"}', "snapshot.bad-shape"),
        (pickle.dumps({"segments": "x", "device_traces": []}), "snapshot.bad-shape"),
        (pickle.dumps([1, 2]), "snapshot.bad-shape"),
        (pickle.dumps({"segments": [], "device_traces": [[{"action": "alloc", "size": True}]]}), "snapshot.bad-shape"),
    ],
)
def test_what_is_no_snapshot(data: bytes, code: str) -> None:
    with pytest.raises(InputError) as raised:
        parse_snapshot(data)
    assert raised.value.message.code == code


def test_the_three_forms_are_one(tmp_path: Path) -> None:
    written = snapshot()
    plain = tmp_path / "plain.pickle"
    write_snapshot(plain, written)
    text = json.dumps(written).encode()
    reduced = {
        "segments": [
            [
                one["address"], one["total_size"], one["stream"], one["segment_type"],
                [[block["address"], block["size"], block["requested_size"], block["state"]] for block in one["blocks"]],
            ]
            for one in written["segments"]
        ],
        "traces": [[[one["action"], one["addr"], one["size"], one["stream"]] for one in written["device_traces"][0]]],
        "allocator_settings": written["allocator_settings"],
    }  # fmt: skip
    first = read_snapshot(plain)
    assert parse_snapshot(text) == first
    assert parse_snapshot(json.dumps(reduced).encode()) == first
    packed = tmp_path / "plain.pickle.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert read_snapshot(packed) == first


def test_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnreachableError):
        read_snapshot(tmp_path / "none")
    with pytest.raises(InputError, match="folder"):
        read_snapshot(tmp_path)
    torn = tmp_path / "torn.gz"
    torn.write_bytes(gzip.compress(bytes(10_000))[:20])
    with pytest.raises(InputError, match=r"torn\.gz.*compressed"):
        read_snapshot(torn)
    monkeypatch.setattr("capienza.allocator.snapshot.MOST_BYTES", 1000)
    bomb = tmp_path / "bomb.gz"
    bomb.write_bytes(gzip.compress(bytes(10**7)))
    with pytest.raises(InputError, match="larger than"):
        read_snapshot(bomb)


def test_what_is_written() -> None:
    written = snapshot()
    lines = [(line["action"], line["size"], line["stream"]) for line in written["device_traces"][0]]
    assert lines == [
        ("segment_alloc", 20 * MIB, 0), ("alloc", 5 * MIB, 0),
        ("segment_alloc", 30 * MIB, 0), ("alloc", 30 * MIB - 3, 0),
        ("segment_alloc", 2 * MIB, 0), ("alloc", 700, 0),
        ("free_requested", 5 * MIB, 0), ("free_completed", 5 * MIB, 0),
        ("segment_alloc", 20 * MIB, 2), ("alloc", 3 * MIB, 2),
        ("free_requested", 30 * MIB - 3, 0),
    ]  # fmt: skip
    first = written["device_traces"][0][1]
    assert [frame["name"] for frame in first["frames"]] == ["aten.mm 1", "layers.0.mlp", "forward"]
    assert [line.get("category") for line in written["device_traces"][0]][:4] == [
        "unknown", "activation", "unknown", "unknown",
    ]  # fmt: skip
    assert not any("category" in line for line in make_snapshot(PROGRAM, phases=("", ""))["device_traces"][0])
    states = [[block["state"] for block in one["blocks"]] for one in written["segments"]]
    assert states == [
        ["inactive"], ["active_pending_free"], ["active_allocated", "inactive"], ["active_allocated", "inactive"],
    ]  # fmt: skip


def test_an_end_of_memory_is_written() -> None:
    last = snapshot(capacity=51 * MIB)["device_traces"][0][-1]
    assert (last["action"], last["size"], last["device_free"]) == ("oom", 1024, MIB)


@pytest.mark.oracle
@pytest.mark.parametrize("capacity", [None, 51 * MIB])
def test_as_the_memory_viewer_reads_it(tmp_path: Path, capacity: int | None) -> None:
    pytest.importorskip("torch")
    from torch.cuda import _memory_viz

    path = tmp_path / "snapshot.pickle"
    write_snapshot(path, snapshot(capacity))
    with path.open("rb") as file:
        read = pickle.load(file)
    # segsum checks that blocks tile their segments and that the sums agree.
    assert f"total_reserved: {50 if capacity else 72}.0MiB" in _memory_viz.segsum(read)
    told = _memory_viz.trace(read)
    assert "cudaMalloc" in told
    assert ("raise OutOfMemoryError # 1.0KiB requested, 1.0MiB free in CUDA" in told) == (capacity is not None)
    for page in (_memory_viz.trace_plot(read), _memory_viz.segment_plot(read)):
        assert "add_local_files" in page
    flames = io.StringIO()
    _memory_viz._write_blocks(flames, "stream_0", read["segments"][1]["blocks"])
    assert ":0:forward;:0:layers.0.mlp;:0:aten.mm" in flames.getvalue()
