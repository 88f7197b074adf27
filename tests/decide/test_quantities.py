"""The list of quantities names all that verdicts look for, and `evidence add` says which it does not name."""

from __future__ import annotations

import ast
import datetime
from pathlib import Path

import pytest

import capienza.decide
from capienza.decide.probes import CAPABILITY, GFX, PACKAGE
from capienza.decide.server_rules import PACKAGE_OF
from capienza.evidence import claims
from capienza.evidence.record import Claim, Record, Scope
from capienza.evidence.store import seal
from capienza.evidence.vocabulary import CRITERIA
from capienza.plan.pilot import DURATION, TOKEN_RATE, UNITS
from capienza.records.quantities import NAMES, QUANTITIES
from capienza.records.quantities import PACKAGE as OWN_PACKAGE
from capienza.records.remarks import remarks

NOW = datetime.datetime(2026, 11, 30, tzinfo=datetime.UTC)
READERS = {"judge_property": 1, "stated_values": 1, "_size": 2}


def looked_for() -> set[str]:
    """Second or third arguments, as literals, of the calls that read a property from records."""
    found = set()
    for path in Path(capienza.decide.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            position = (
                READERS.get(getattr(getattr(node, "func", None), "id", "")) if isinstance(node, ast.Call) else None
            )
            if position is not None and isinstance(node.args[position], ast.Constant):
                found.add(node.args[position].value)
    return found


def test_every_quantity_that_verdicts_look_for_is_listed():
    words = {claims.OUTCOME, claims.PEAK, claims.CONTEXT, claims.TRUNCATED, claims.DROPPED, claims.POOL}
    words |= {claims.COMPATIBILITY, claims.EXCHANGE_RATE, CAPABILITY, GFX, DURATION, TOKEN_RATE, *PACKAGE_OF}
    properties = looked_for()
    assert {"ram_bytes", "disk_bytes", "gpu_link", "starts_at"} <= properties
    assert words | properties <= set(NAMES)
    assert len(NAMES) == len(set(NAMES))
    assert OWN_PACKAGE == PACKAGE


def test_criteria_and_units_are_those_of_the_decision():
    assert {criterion for one in QUANTITIES for criterion in one.criteria} <= set(CRITERIA)
    units = {one.name: one.unit for one in QUANTITIES}
    assert units.items() >= UNITS.items()
    assert all((one.unit == "B") == one.name.endswith("_bytes") for one in QUANTITIES)


@pytest.mark.parametrize(
    ("kind", "quantity", "is_said"),
    [
        ("document", "pippo", True),
        ("measurement", "package.", True),
        ("measurement", "package.vllm", False),
        ("document", "ram_bytes", False),
        ("quality_result", "exact_match", False),
    ],
)
def test_an_unknown_quantity_is_accepted_and_said(kind, quantity, is_said):
    record = seal(
        Record(kind=kind, version="1", date=NOW, scope=Scope(), claims=(Claim(quantity=quantity, value="3"),))
    )
    codes = [message.code for message in remarks(record, (), NOW)]
    assert ("records.quantity-unread" in codes) is is_said
