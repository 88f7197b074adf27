"""The list of records: each line says what differs from the usual scope, and states each quantity once."""

from __future__ import annotations

import datetime

from hypothesis import given
from hypothesis import strategies as st

from capienza.evidence.record import Claim, Record, Scope
from capienza.evidence.store import seal
from capienza.evidence.survey import Surveyed
from capienza.i18n.translator import speaker
from capienza.report.blocks import Paragraph, Table
from capienza.report.evidence_list import list_document, scope_beside, usual_scope

EN = speaker("en")
word = st.sampled_from([None, "a", "b"])
scopes = st.builds(Scope, model=word, task=word, gpu=word, tokens=st.sampled_from([None, 8, 16]))


def surveyed(scope, *claims):
    record = Record(
        kind="measurement", version="1", date=datetime.datetime(2026, 11, 30, tzinfo=datetime.UTC), subject=(),
        scope=scope, claims=claims, method="measure", mode="automatic", producer={}, inputs=(), notes=(),
    )  # fmt: skip
    return Surveyed(record=seal(record), state="counts", reasons=())


@given(st.lists(scopes, min_size=2, max_size=8))
def test_no_scope_is_lost(found):
    """What a line says, over what is usual, is the scope again."""
    usual = usual_scope(found)
    for scope in found:
        said = scope_beside(scope, usual, EN)
        alone = said.startswith("only ") or said == "not stated"
        parts = dict(part.split("=") for part in said.removeprefix("only ").split(", ") if "=" in part)
        read = {}
        for name in ("model", "task", "gpu", "tokens"):
            base = None if alone else getattr(usual, name)
            value = parts.get(name, None if base is None else str(base))
            read[name] = None if value == "-" else value
        assert read == {name: None if getattr(scope, name) is None else str(getattr(scope, name)) for name in read}


def test_what_is_usual_stands_once_and_a_quantity_once():
    peaks = [
        Claim(quantity="peak_bytes", value=value * 2**30, unit="B", counter="device", phase="load", gpu_index=0)
        for value in (3, 9, 5)
    ]
    rows = tuple(surveyed(Scope(model="m" * 40, task="inference", tokens=tokens), *peaks) for tokens in (8, 16, 32))
    blocks = list_document(rows, (), EN)
    said = " ".join(block.text for block in blocks if isinstance(block, Paragraph))
    assert said.count("m" * 40) == 1
    (table,) = [block for block in blocks if isinstance(block, Table)]
    assert [row[4] for row in table.rows] == ["tokens=8", "tokens=16", "tokens=32"]
    assert {row[5] for row in table.rows} == {"peak: 9.00 GiB, the largest of 3"}


def test_one_record_is_shown_with_its_whole_scope():
    (table,) = [block for block in list_document((surveyed(Scope(model="m")),), (), EN) if isinstance(block, Table)]
    assert table.rows[0][4] == "model=m"
