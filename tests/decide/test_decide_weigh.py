"""The laws of weighing, on statements alone: denser than whole worlds."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from capienza.decide.verdict import EvidenceRef, Finding
from capienza.decide.weigh import Stance, merge, weigh
from capienza.errors import Message
from capienza.evidence.rank import MEASURED, MEASURED_HERE, OFFER_DOCUMENT
from capienza.truth import Truth, all_of

LAW = settings(max_examples=600, deadline=None)


def stance(says, rank, number):
    reason = (Message(f"test.{says}", says, "", {}),)
    return Stance(
        says=says, rank=rank, evidence=EvidenceRef(id=f"{says}-{rank}-{number}"), reasons=reason, settle=reason
    )


stances = st.builds(
    stance,
    st.sampled_from(["supports", "violates", "doubts", "ran"]),
    st.sampled_from([OFFER_DOCUMENT, MEASURED, MEASURED_HERE]),
    st.integers(0, 3),
)
proofs = st.builds(stance, st.just("violates"), st.none(), st.integers(0, 1))
sets = st.lists(stances | proofs, max_size=6)


def top(some):
    decisive = (one.rank for one in some if one.rank is not None and one.says in ("supports", "violates"))
    return max(decisive, default=None)


@LAW
@given(sets, stances.filter(lambda one: one.says == "supports"))
def test_taking_support_away_never_helps(some, support):
    rest = [one for one in some if one != support]
    assert weigh(rest).truth.value <= weigh([*rest, support]).truth.value


@LAW
@given(sets, stances)
def test_an_equal_rank_never_turns_a_value_over(some, one):
    before, after = weigh(some).truth, weigh([*some, one]).truth
    if {before, after} == {Truth.TRUE, Truth.FALSE}:
        assert top(some) is None or one.rank > top(some)
        assert "decide.overridden" in [reason.code for reason in weigh([*some, one]).reasons]


@LAW
@given(sets, st.randoms())
def test_order_and_repetition_change_nothing(some, random):
    shuffled = some[:]
    random.shuffle(shuffled)
    assert weigh(shuffled) == weigh(some)
    assert weigh([*some, *some]).truth is weigh(some).truth


@LAW
@given(sets)
def test_every_failure_is_kept(some):
    finding = weigh(some)
    assert {ref.id for ref in finding.failures} == {one.evidence.id for one in some if one.says == "violates"}
    if any(one.says != "ran" for one in some):
        assert finding.reasons
    if finding.reasons and finding.truth is Truth.UNKNOWN:
        assert finding.settle


def test_every_small_set_by_hand():
    """The value of every set of two statements, from a table written out."""
    s, v, d = (("supports", MEASURED), ("violates", MEASURED), ("doubts", MEASURED))
    r = ("ran", MEASURED)
    low_s, low_v, proof = (("supports", OFFER_DOCUMENT), ("violates", OFFER_DOCUMENT), ("violates", None))
    true, unknown, false = Truth.TRUE, Truth.UNKNOWN, Truth.FALSE
    table = {
        (s, v): unknown,
        (s, d): unknown,
        (v, d): false,
        (s, r): true,
        (v, r): unknown,
        (d, r): unknown,
        (r, low_s): true,
        (r, low_v): unknown,
        (proof, r): unknown,
        (s, low_s): true,
        (s, low_v): true,
        (v, low_s): false,
        (v, low_v): false,
        (d, low_s): unknown,
        (d, low_v): false,
        (low_s, low_v): unknown,
        (proof, s): true,
        (proof, low_s): true,
        (proof, v): false,
        (proof, d): false,
        (proof, low_v): false,
    }
    assert len(table) == len(list(itertools.combinations((s, v, d, r, low_s, low_v, proof), 2)))
    for pair, value in table.items():
        made = [stance(says, rank, number) for number, (says, rank) in enumerate(pair)]
        assert weigh(made).truth is value, pair


findings = st.builds(
    lambda truth: Finding(
        truth=truth, reasons=(Message("test.one", "one", "", {}),), settle=(Message("t", "t", "", {}),)
    ),
    st.sampled_from([Truth.TRUE, Truth.UNKNOWN, Truth.FALSE, None]),
)


@LAW
@given(st.lists(findings, max_size=5))
def test_parts_are_joined_by_strong_kleene(some):
    values = [one.truth for one in some if one.truth is not None]
    merged = merge(some)
    assert merged.truth is (all_of(values) if values else None)
    assert bool(merged.settle) is (merged.truth is Truth.UNKNOWN)
