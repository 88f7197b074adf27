"""More laws on random worlds: ranges, waivers, plans, card classes, and what a decision record pins."""

from __future__ import annotations

import msgspec
from decide_strategies import LAW, PLAN, judge, offers, record_sets, worlds
from decide_world import (
    NOW,
    QUALITY_PLAN,
    change,
    codes,
    make_capacity,
    make_card,
    make_ledger,
    make_offer,
    make_oom,
    make_run,
    make_sizing,
    make_waiver,
)
from hypothesis import given
from hypothesis import strategies as st

from capienza.canon import canonical
from capienza.decide.engine import decide
from capienza.decide.record import decision_record, offers_digest
from capienza.evidence.store import root
from capienza.units import GIB


def capacity_between(smallest, largest):
    """A card of which a process may use 512 MiB less than its driver reports; unknown together."""
    cuda_total = None if smallest is None else max(0, smallest - GIB // 2)
    return make_capacity(largest_bytes=largest, smallest_bytes=smallest, cuda_total_bytes=cuda_total)


@LAW
@given(
    st.tuples(*(st.integers(0, 40) for _ in range(3))).map(sorted),
    st.tuples(*(st.integers(0, 9) for _ in range(2))),
    st.integers(18, 30),
    st.integers(0, 6),
    st.integers(0, 6),
    record_sets,
)
def test_widening_a_range_never_settles(figures, widen, capacity, narrower, wider, records):
    """Widening what is predicted, or what the card may hold, never turns unknown into a definite value."""
    floor, expected, ceiling = (figure * GIB for figure in figures)
    lowest = None if narrower == 6 else max(0, capacity - narrower) * GIB
    narrow = make_sizing(
        ledger=make_ledger(floor, expected, ceiling), capacity=capacity_between(capacity * GIB, capacity * GIB)
    )
    wide = make_sizing(
        ledger=make_ledger(max(0, floor - widen[0] * GIB), expected, ceiling + widen[1] * GIB),
        capacity=capacity_between(lowest, (capacity + wider) * GIB),
    )
    before, after = (judge(make_card(), make_offer(), sizing, records).criterion("memory") for sizing in (narrow, wide))
    if before.state == "to_confirm" and "decide.memory-below-floor" not in codes(before.reasons):
        # A reading below the proved floor is a contradiction, which a lower floor takes away.
        assert after.state == "to_confirm" or after.waiver


@LAW
@given(worlds, st.sampled_from(["memory", "quality", "workload", "compatibility", "placement", "budget"]))
def test_a_waiver_never_covers_a_failure(world, criterion):
    before = judge(**world).criterion(criterion)
    after = judge(**world | {"records": [*world["records"], make_waiver(criterion)]}).criterion(criterion)
    if before.state == "exclude" or before.failures:
        assert after.state == before.state
    if before.state != after.state:
        assert (before.state, after.state) == ("to_confirm", "admissible")
        assert after.waiver is not None


@LAW
@given(worlds)
def test_a_completed_plan_protects_negative_evidence(world):
    """Taking any record of a plan away never admits on what is left of the plan."""
    good = make_run(inputs=(PLAN.id,), version="good")
    oom = make_oom(inputs=(PLAN.id,), version="oom")
    base = [record for record in world["records"] if PLAN.id not in record.inputs and record.kind == "quality_result"]
    for gone in (PLAN, good, oom):
        records = [*base, *(record for record in (PLAN, good, oom) if record is not gone)]
        assert judge(**world | {"records": records}).criterion("memory").state != "admissible"


@LAW
@given(st.lists(offers, max_size=5), record_sets, st.randoms())
def test_classes_change_nothing(some, records, random):
    """Judging many offers together gives what each gives alone, in whatever order they come."""
    named = [change(offer, id=f"offer-{number}") for number, offer in enumerate(some)]
    random.shuffle(named)
    together = list(decide(make_card(), named, lambda *_: make_sizing(), (*records, QUALITY_PLAN), NOW))
    assert together == [judge(make_card(), offer, make_sizing(), records) for offer in named]


@LAW
@given(st.lists(offers, max_size=4), record_sets)
def test_the_decision_record_pins_everything(some, records):
    named = [change(offer, id=f"offer-{number}") for number, offer in enumerate(some)]
    card = make_card()
    made = []
    for order in (named, list(named)):
        decisions = list(decide(card, order, lambda *_: make_sizing(), records, NOW))
        made.append(decision_record(card, decisions, offers_digest(reversed(order)), records, NOW))
    first, second = made
    assert canonical(first) == canonical(second)
    subjects = {subject.name: subject.sha256 for subject in first.subject}
    assert subjects["records"] == root(record.id for record in records)
    assert subjects["card"] == card.sha256
    selected = [claim.value for claim in first.claims if claim.quantity == "selected"]
    assert selected == [decision.offer for decision in decisions if decision.state == "admissible"]
    assert set(first.inputs) <= {record.id for record in records}


@LAW
@given(offers)
def test_the_digest_of_an_offer_is_that_of_its_canonical_form(offer):
    from capienza.canon import digest
    from capienza.decide.documents import offer_digest
    from capienza.errors import Place

    named = change(offer, notes='é "quoted" \\ \n \x7f   ', region="𝔈", place=Place(file="x.yaml", line=3))
    assert offer_digest(named) == digest(msgspec.structs.replace(named, place=Place()))
