"""Hostile files end in a named error, within bounded memory; mutated ones in offers or named errors."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from offer_files import EXAMPLES, flat, read_text

from capienza.catalog.read import read_offers
from capienza.catalog.session import Session
from capienza.errors import InputError

TEXTS = {
    "yaml": (EXAMPLES / "market.yaml").read_bytes()[:6000]
    + b"\n- {offer_id: f, provider: p, gpu: {name_raw: L4}, gpus_total: 1, "
    + b'price: {kind: total, amount: "5", currency: USD, term_hours: 24}}\n',
    "csv": (EXAMPLES / "small.csv").read_bytes(),
    "jsonl": (EXAMPLES / "small.jsonl").read_bytes(),
    "json": b"[" + (EXAMPLES / "small.jsonl").read_bytes().strip().replace(b"\n", b",\n") + b"]",
}
WORDS = """ " ' , : { } [ ] - # &a *a ! | 0 -1 1e999 NaN null true \\ \\u0000 \\ud800 % =cmd id USD 2026-13-45 <<:"""
ODD = ["", "\n", "\r", "\t", " ", "\0", "1,000.00 USD", "9" * 400, "{" * 60, "[" * 60, "\u202e", "\u2028"]
PIECES = st.sampled_from([*(word.encode() for word in (*WORDS.split(), *ODD)), b"\xff"])
CUTS = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 12), PIECES), min_size=1, max_size=4)


@pytest.mark.parametrize("ending", sorted(TEXTS))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=CUTS)
def test_mutated_files_give_offers_or_named_problems(
    tmp_path: Path, ending: str, cuts: list[tuple[float, int, bytes]]
) -> None:
    data = TEXTS[ending]
    for where, length, piece in cuts:
        at = int(where * len(data))
        data = data[:at] + piece + data[at + length :]
    outcome = read_text(tmp_path, ending, data)  # anything but InputError fails the test
    assert outcome.offers or outcome.problems
    for problem in outcome.problems:
        assert problem.place.file == str(tmp_path / f"offers.{ending}")
        assert str(problem)
        assert problem.as_dict()
    for finding in outcome.findings.kept:
        assert str(finding.message)
        assert finding.place.line
    for offer in outcome.offers:
        assert offer.gpus == offer.lots * offer.cards > 0
        assert offer.price.money is None or offer.price.money.amount > 0


@pytest.mark.parametrize("ending", sorted(TEXTS))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_any_bytes_are_refused_by_name_or_read(tmp_path: Path, ending: str, data: bytes) -> None:
    outcome = read_text(tmp_path, ending, data)
    assert outcome.offers or outcome.problems


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_one_value_replaced_by_any_other(tmp_path: Path, data: st.DataObject) -> None:
    offer = json.loads(TEXTS["jsonl"].splitlines()[data.draw(st.integers(0, 7))])
    holder = offer
    key = data.draw(st.sampled_from(sorted(holder)))
    while isinstance(holder[key], dict) and data.draw(st.booleans()):
        holder = holder[key]
        key = data.draw(st.sampled_from(sorted(holder)))
    holder[key] = data.draw(JSON_VALUES)
    text = json.dumps(offer)
    as_lines = read_text(tmp_path, "jsonl", text)
    as_list = read_text(tmp_path, "json", f"[{text}]")
    assert as_lines.codes == as_list.codes
    assert len(as_lines.offers) == len(as_list.offers)
    assert bool(as_lines.offers) != bool(as_lines.problems)


def test_more_offers_than_one_file_may_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[Session.__module__], "MAX_OFFERS", 3)
    outcome = read_text(tmp_path, "yaml", "".join(flat(id=f"o{i}") for i in range(5)))
    assert len(outcome.offers) == 3
    assert outcome.codes == ["too-many-offers"]


def test_forgetting_claims_keeps_the_offers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("capienza.catalog.claims.MAX_KEPT_CLAIMS", 2)
    text = "".join(flat(id=f"o{i}", gpu=f"{('L4', 'A40', 'T4', 'H100')[i % 4]}") for i in range(12))
    offers = read_text(tmp_path, "yaml", text).offers
    assert len(offers) == 12
    assert len({offer.gpu for offer in offers}) == 4


HUGE = {
    "one line of a gigabyte": ("csv json jsonl yaml", "file.truncate(1 << 30)"),
    "a field that never ends": ("csv", """file.write(b'id,provider\\n"' + b'a\\n' * 3_000_000)"""),
    "brackets without end": ("json jsonl yaml", "file.write(b'[' * 10_000_000)"),
    "a bracket on each line": ("json jsonl yaml csv", "file.write(b'[\\n' * 1_000_000)"),
    "an element without end": ("json", "file.write(b'[[' + b'[],' * 3_000_000)"),
    "braces within a line": ("json jsonl yaml", """file.write(b'{"a":' * 10_000 + b'\\n')"""),
    "quotes without end": ("json yaml", """file.write(b'["' + b'\\\\a' * 2_000_000)"""),
    "a long list of nothing": ("json yaml", "file.write(b'[' + b'1,' * 900_000 + b'1]')"),
    "items without end": ("yaml", "file.write(b'- a: [\\n' * 300_000)"),
    "anchors that multiply": ("yaml", "file.write(b'- &a [x]\\n- [*a, *a, *a]\\n' * 9_000)"),
    "distinct unknown names": (
        "csv",
        "file.write(b'id,provider,gpu,cards,days,total\\n'); "
        "[file.write(f'o{i},p,GPU model {i},1,1,1 USD\\n'.encode()) for i in range(30_000)]",
    ),
}
"""What is written, and the endings under which it is read."""
PROGRAM = """
import re, sys
from pathlib import Path
from capienza.catalog.notes import Findings
from capienza.catalog.read import read_offers
from capienza.errors import InputError
def peak_kib():
    # not ru_maxrss, which begins with the peak of the process that started this one
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
path = Path(sys.argv[1])
list(read_offers(Path(sys.argv[2])))
before = peak_kib()
try:
    count = sum(1 for _ in read_offers(path, Findings()))
    print("read", count, end=" ")
except InputError as error:
    print(str(error)[:300].replace(chr(10), " "), end=" ")
print(peak_kib() - before)
"""


GOOD = {"csv": "small.csv", "json": "small.jsonl", "jsonl": "small.jsonl", "yaml": "two-cards.yaml"}


@pytest.mark.parametrize(
    "kind, ending", [(kind, ending) for kind, (endings, _) in HUGE.items() for ending in endings.split()]
)
def test_hostile_files_stay_within_memory(tmp_path: Path, kind: str, ending: str) -> None:
    path = tmp_path / f"offers.{ending}"
    make = f"file = open({str(path)!r}, 'wb'); {HUGE[kind][1]}; file.close()"
    subprocess.run([sys.executable, "-c", make], check=True)  # not in the process that is measured
    words = [sys.executable, "-c", PROGRAM, str(path), str(EXAMPLES / GOOD[ending])]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    path.unlink()
    assert done.returncode == 0, done.stderr[-2000:]
    grown_kib = int(done.stdout.rsplit(maxsplit=1)[1])
    assert grown_kib < 64 * 1024, done.stdout


@pytest.mark.parametrize("ending", [".json", ".jsonl"])
@pytest.mark.parametrize("where", ['"id":"\\ud800"', '"\\udc00":1,"id":"a"', '"id":"a","notes":"x\\ud800y"'])
def test_half_of_a_surrogate_pair_is_refused(tmp_path: Path, ending: str, where: str) -> None:
    offer = "{" + where + ',"provider":"p","gpu":"L4","cards":1,"days":1,"total":"5 USD"}'
    path = tmp_path / f"offers{ending}"
    path.write_text(f"[{offer}]" if ending == ".json" else f"{offer}\n")
    with pytest.raises(InputError) as caught:
        list(read_offers(path))
    str(caught.value).encode()
