"""The laws of the decision (DESIGN section 3, reference evidence section 2), each on random worlds."""

from __future__ import annotations

from decimal import Decimal

from decide_strategies import LAW, judge, other_records, positive_records, truths, worlds
from decide_world import (
    change,
    codes,
)
from hypothesis import given
from hypothesis import strategies as st

from capienza.canon import canonical
from capienza.decide.verdict import STATE_OF
from capienza.errors import fill
from capienza.truth import all_of
from capienza.units import Money


@LAW
@given(worlds, positive_records)
def test_monotone(world, supporting):
    """Taking a supporting record away never moves a verdict towards admissible."""
    with_it = truths(judge(**world | {"records": [*world["records"], supporting]}))
    records = [record for record in world["records"] if record.id != supporting.id]
    without = truths(judge(**world | {"records": records}))
    assert with_it.keys() == without.keys()
    for name, value in without.items():
        assert value.value <= with_it[name].value, name


@LAW
@given(worlds, positive_records | other_records)
def test_no_silent_flip(world, record):
    """One more record never turns a value into its opposite, unless it outweighs the others and that is listed.

    A waived unknown is no value of its own: a failure ends it, and that is listed too.
    """
    before = judge(**world)
    after = judge(**world | {"records": [*world["records"], record]})
    for old, new in zip(before.criteria, after.criteria, strict=True):
        if {old.state, new.state} == {"admissible", "exclude"}:
            told = "decide.waiver-refused" if old.waiver else "decide.overridden"
            assert told in codes(new.reasons), (old.criterion, codes(new.reasons))


@LAW
@given(worlds, st.randoms())
def test_order_free_and_deterministic(world, random):
    """Permuting, or repeating, records changes not one byte."""
    expected = canonical(judge(**world))
    assert canonical(judge(**world)) == expected
    records = world["records"] * 2
    random.shuffle(records)
    assert canonical(judge(**world | {"records": records})) == expected


@LAW
@given(worlds)
def test_explained(world):
    """What is not admissible has a reason, what is to confirm a way to settle it, and every text can be read."""
    decision = judge(**world)
    for row in (*decision.criteria, decision.verdict):
        assert row.reasons or row.state == "admissible"
        steps = getattr(row, "settle", None) or getattr(row, "condition", ())
        assert steps or row.state != "to_confirm"
        for message in (*row.reasons, *steps):
            assert str(message)
            fill(message.hint, message.parameters)


@LAW
@given(worlds)
def test_strong_kleene(world):
    """Exclude beats to-confirm beats admissible, over what applies; nothing left is to confirm."""
    decision = judge(**world)
    assert STATE_OF[all_of(row.truth for row in decision.criteria if row.truth is not None)] == decision.state
    if decision.state == "admissible":
        assert all(row.evidence for row in decision.criteria if row.state != "not_applicable")
        assert all(row.state in ("admissible", "not_applicable") for row in decision.criteria)


@LAW
@given(worlds, st.sampled_from(["0.01", "1", "20"]))
def test_no_compensation(world, amount):
    """A better price changes the criterion of the budget at most, and no exclusion of another one."""
    price = change(world["offer"].price, money=Money(Decimal(amount), "USD"))
    cheaper = judge(**world | {"offer": change(world["offer"], price=price)})
    before = judge(**world)
    for old, new in zip(before.criteria, cheaper.criteria, strict=True):
        if old.criterion != "budget":
            assert (old.state, codes(old.reasons)) == (new.state, codes(new.reasons))
    if any(row.state == "exclude" for row in before.criteria if row.criterion != "budget"):
        assert cheaper.state == "exclude"
