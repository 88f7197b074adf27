"""Hostile files in the forms of others: named errors or findings, within bounded memory."""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from import_files import (
    BLOCK,
    GPU_TYPE,
    GPUHUNT,
    INSTANCE,
    OFFER,
    RETRIEVED,
    SKYPILOT,
    as_csv,
    as_json,
    gpuhunt,
    imported,
    skypilot,
)
from offer_files import placeless

from capienza.api.offer_files import offers_import
from capienza.catalog.importers import read
from capienza.catalog.importers.form import Source
from capienza.catalog.importers.table import FORMS, form_of
from capienza.catalog.notes import Findings
from capienza.catalog.read import read_offers
from capienza.errors import InputError, InputErrors

FILES = {
    "gpuhunt": ("csv", gpuhunt({}, {"gpu_count": 8}).encode()),
    "skypilot": ("csv", skypilot({"mib": 23034}, {"InstanceType": "2x-L4-1-1", "AcceleratorCount": 2}).encode()),
    "vast": ("json", as_json({"offers": [OFFER, {**OFFER, "id": 2}]}).encode()),
    "runpod": ("json", as_json({"data": {"gpuTypes": [GPU_TYPE]}}).encode()),
    "lambda": ("json", as_json({"data": {"gpu_8x_a100": INSTANCE}}).encode()),
    "aws-capacity-blocks": ("json", as_json({"CapacityBlockOfferings": [BLOCK]}).encode()),
}
WORDS = (
    """ " ' , : { } [ ] - =cmd|' @SUM(1) +1 0 -1 1e999 1e-999 NaN Infinity null true \\ \\u0000 \\ud800 % 2026-13-45"""
)
ODD = [
    "",
    "\n",
    "\r",
    "\t",
    " ",
    "\0",
    "\x1b[2J",
    "\u202e",
    "<script>",
    "9" * 400,
    "{" * 60,
    "[" * 60,
    "\ufeff",
    "\u2028",
]
PIECES = st.sampled_from([*(word.encode() for word in (*WORDS.split(), *ODD)), b"\xff"])
CUTS = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 12), PIECES), min_size=1, max_size=4)


def outcome(folder: Path, data: bytes, ending: str, form: str | None) -> int:
    """How many offers were made; anything but a named error fails the test, and nothing half-written is left."""
    path, out = folder / f"list.{ending}", folder / "out.jsonl"
    out.unlink(missing_ok=True)
    path.write_bytes(data)
    try:
        report = offers_import(path, out, form, retrieved=RETRIEVED)
    except InputError as error:
        refusal = error
    else:
        for finding in report.findings.kept:
            assert str(finding.message)
        survives(path, out, form)
        return report.count
    assert str(refusal)
    assert refusal.as_dict()
    assert not out.exists()
    return 0


def survives(path: Path, out: Path, form: str | None) -> None:
    """What was written is what was understood, and converting it once more changes nothing."""
    again = out.with_name("again.jsonl")
    offers_import(out, again)
    assert again.read_bytes() == out.read_bytes()
    found = FORMS[form] if form else form_of(path)
    assert found
    moment = datetime.datetime.fromisoformat(RETRIEVED).replace(tzinfo=datetime.UTC)
    first = next(iter(read_offers(out)))
    assert first.document
    source = Source(form=found.name, file=path.name, version=first.document.version or "", retrieved=moment)
    understood = [placeless(offer) for offer in read.read_foreign(path, found, source, Findings())]
    assert [placeless(offer) for offer in read_offers(out)] == understood


@pytest.mark.parametrize("name", sorted(FILES))
def test_an_import_survives_a_round_trip(tmp_path: Path, name: str) -> None:
    ending, data = FILES[name]
    assert outcome(tmp_path, data, ending, name) > 0


def test_every_form_has_a_file_here_and_is_recognised(tmp_path: Path) -> None:
    assert set(FILES) == set(FORMS)
    for name, (ending, data) in FILES.items():
        path = tmp_path / f"list.{ending}"
        path.write_bytes(data)
        assert form_of(path) is FORMS[name]


@pytest.mark.parametrize("name", sorted(FILES))
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=CUTS)
def test_mutated_files_give_offers_or_named_problems(
    tmp_path: Path, name: str, cuts: list[tuple[float, int, bytes]]
) -> None:
    ending, data = FILES[name]
    for where, length, piece in cuts:
        at = int(where * len(data))
        data = data[:at] + piece + data[at + length :]
    outcome(tmp_path, data, ending, name)


@pytest.mark.parametrize("name", sorted(FILES))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_any_bytes_are_refused_by_name(tmp_path: Path, name: str, data: bytes) -> None:
    assert outcome(tmp_path, data, FILES[name][0], name) == 0


CELLS = st.one_of(
    st.text(max_size=12),
    st.integers(-3, 10**12).map(str),
    st.decimals(allow_nan=True, allow_infinity=True).map(str),
    st.sampled_from(["True", "False", "H100", "RTX 4090", "=cmd|'/C calc'!A0", "0.00", "80", "49140", "x86", "nvidia"]),
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.dictionaries(st.sampled_from(GPUHUNT), CELLS), min_size=1, max_size=4))
def test_any_cells_of_gpuhunt(tmp_path: Path, rows: list[dict[str, str]]) -> None:
    outcome(tmp_path, gpuhunt(*rows).encode(errors="replace"), "csv", "gpuhunt")


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.dictionaries(st.sampled_from(SKYPILOT), CELLS), min_size=1, max_size=4))
def test_any_cells_of_skypilot(tmp_path: Path, rows: list[dict[str, str]]) -> None:
    usual = {"InstanceType": "1x-L4-32-65536", "AcceleratorName": "L4", "AcceleratorCount": "1", "Price": "1"}
    text = as_csv(SKYPILOT, *({**usual, **row} for row in rows))
    outcome(tmp_path, text.encode(errors="replace"), "csv", "skypilot")


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize("name", [name for name, (ending, _) in sorted(FILES.items()) if ending == "json"])
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_one_value_replaced_by_any_other(tmp_path: Path, name: str, data: st.DataObject) -> None:
    document: Any = json.loads(FILES[name][1])
    holder = document
    while True:
        key = data.draw(st.sampled_from(sorted(holder) if isinstance(holder, dict) else range(len(holder))))
        if not holder[key] or not isinstance(holder[key], dict | list) or data.draw(st.integers(0, 3)) == 0:
            break
        holder = holder[key]
    holder[key] = data.draw(JSON_VALUES)
    outcome(tmp_path, json.dumps(document).encode(), "json", name)


def test_equal_rows_by_the_thousand_are_named_apart_at_once(tmp_path: Path) -> None:
    rows = [{"instance_name": "same"}] * 5000
    found = imported(tmp_path, gpuhunt(*rows), "csv")
    assert len({offer.id for offer in found.offers}) == 5000


def test_rows_that_make_many_offers_each_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "MAX_OFFERS", 30)
    row = {**GPU_TYPE, "maxGpuCount": 64}
    text = as_json({"gpuTypes": [{**row, "id": str(number)} for number in range(3)]})
    with pytest.raises(InputErrors, match="more than 30 offers"):
        imported(tmp_path, text, "json")
    assert not (tmp_path / "out.jsonl").exists()


def test_a_key_written_twice_is_not_guessed(tmp_path: Path) -> None:
    text = as_json({"offers": [OFFER, {**OFFER, "id": 7}]}).replace('"id": 7', '"id": 7, "dph_base": 9')
    found = imported(tmp_path, text, "json")
    assert found.codes["left-out.import.key-twice"] == 1
    outer = '{"offers": [], ' + as_json({"offers": [OFFER]})[1:]
    with pytest.raises(InputError, match="written twice"):
        imported(tmp_path, outer, "json", form="vast")


HUGE = {
    "one line of a gigabyte": ("csv json", "file.truncate(1 << 30)"),
    "a gigabyte of nothing under a header": ("csv", "file.write(HEADER); file.truncate(1 << 30)"),
    "blank lines without end": ("csv", "file.write(HEADER); file.write(b'\\n' * 7_000_000)"),
    "short lines without end": ("csv", "file.write(HEADER); file.write(b'a\\n' * 3_000_000)"),
    "a cell that never ends": ("csv", """file.write(HEADER); file.write(b'"' + b'a\\n' * 3_000_000)"""),
    "rows without a gpu": ("csv", "file.write(HEADER); file.write(b'a,b,1,,,0,,,,,,,,\\n' * 600_000)"),
    "names that are all new": (
        "csv",
        "file.write(HEADER); [file.write(f'i{i},b,1,,,1,GPU {i},24,,,,,,\\n'.encode()) for i in range(40_000)]",
    ),
    "brackets without end": ("json", "file.write(b'[' * 10_000_000)"),
    "lists of nothing": ("json", "file.write(b'{\"offers\": [' + b'[],' * 1_000_000 + b'[]]}')"),
    "objects of nothing": ("json", "file.write(b'{\"offers\": [' + b'{},' * 1_000_000 + b'{}]}')"),
    "keys without end": ("json", "file.write(b'{' + b'\"a\":1,' * 2_000_000 + b'\"offers\":[]}')"),
    "one row of megabytes": ("json", "file.write(b'{\"offers\": [{\"gpu_name\": \"' + b'x' * 9_000_000 + b'\"}]}')"),
}
PROGRAM = """
import re, sys
from capienza.api.offer_files import offers_import
from capienza.errors import InputError
def peak_kib():
    # not ru_maxrss, which begins with the peak of the process that started this one
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
bad, good, out, form = sys.argv[1:]
offers_import(good, out, retrieved="2026-11-28")
before = peak_kib()
try:
    print("read", offers_import(bad, out, form, retrieved="2026-11-28").count, end=" ")
except InputError as error:
    print(str(error)[:300].replace(chr(10), " "), end=" ")
print(peak_kib() - before)
"""


@pytest.mark.parametrize(
    "kind, ending", [(kind, ending) for kind, (endings, _) in HUGE.items() for ending in endings.split()]
)
def test_hostile_files_stay_within_memory(tmp_path: Path, kind: str, ending: str) -> None:
    name = "gpuhunt" if ending == "csv" else "vast"
    bad, good = tmp_path / f"bad.{ending}", tmp_path / f"good.{ending}"
    good.write_bytes(FILES[name][1])
    header = FILES[name][1].splitlines()[0] + b"\n"
    make = f"HEADER = {header!r}; file = open({str(bad)!r}, 'wb'); {HUGE[kind][1]}; file.close()"
    subprocess.run([sys.executable, "-c", make], check=True)  # not in the process that is measured
    words = [sys.executable, "-c", PROGRAM, str(bad), str(good), str(tmp_path / "out.jsonl"), name]
    done = subprocess.run(words, capture_output=True, text=True, timeout=240, check=False)
    bad.unlink()
    assert done.returncode == 0, done.stderr[-2000:]
    grown_kib = int(done.stdout.rsplit(maxsplit=1)[1])
    assert grown_kib < 96 * 1024, done.stdout
