"""More laws on random worlds: ranges, waivers, plans, card classes, and what a decision record pins."""

from __future__ import annotations

import msgspec
from decide_scenes import OFFER_TWISTS, SCENES
from decide_strategies import CRITERIA, FEWER, LAW, judge, recipes, records_of, worlds
from decide_world import (
    NOW,
    QUALITY_PLAN,
    change,
    codes,
    make_capacity,
    make_ledger,
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
    recipes,
)
def test_widening_a_range_never_settles(figures, widen, capacity, narrower, wider, drawn):
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
    scene = SCENES["one"]
    records = records_of(scene, drawn)
    before, after = (judge(scene._replace(sizing=sizing), records).criterion("memory") for sizing in (narrow, wide))
    if before.state == "to_confirm" and "decide.memory-below-floor" not in codes(before.reasons):
        # A reading below the proved floor is a contradiction, which a lower floor takes away.
        assert after.state == "to_confirm" or after.waiver


@LAW
@given(worlds, st.sampled_from(CRITERIA))
def test_a_waiver_never_covers_a_failure(world, criterion):
    scene, records = world
    before = judge(scene, records).criterion(criterion)
    after = judge(scene, [*records, make_waiver(criterion)]).criterion(criterion)
    if before.state == "exclude" or before.failures:
        assert after.state == before.state
    if before.state != after.state:
        assert (before.state, after.state) == ("to_confirm", "admissible")
        assert after.waiver is not None


offers = st.builds(
    lambda name, number, *twists: change(_offer(name, twists), id=("rtx4090-1x3d", "another", "third")[number]),
    st.sampled_from(tuple(SCENES)),
    st.integers(0, 2),
    *[st.sampled_from(OFFER_TWISTS)] * 2,
)


def _offer(name, twists):
    scene = SCENES[name]
    for twist in twists:
        scene = twist(scene)
    return scene.offer


@FEWER
@given(
    st.sampled_from(tuple(SCENES)), st.lists(offers, max_size=4, unique_by=lambda one: one.id), recipes, st.randoms()
)
def test_classes_change_nothing(name, some, drawn, random):
    """Judging many offers together gives what each gives alone, in whatever order they come."""
    scene = SCENES[name]
    records = records_of(scene, drawn)
    random.shuffle(some)
    together = list(decide(scene.card, some, lambda *_: scene.sizing, (*records, QUALITY_PLAN), NOW))
    assert together == [judge(scene._replace(offer=offer), records) for offer in some]


@FEWER
@given(st.lists(offers, max_size=3, unique_by=lambda one: one.id), recipes)
def test_the_decision_record_pins_everything(some, drawn):
    scene = SCENES["one"]
    card, records = scene.card, records_of(scene, drawn)
    made = []
    for order in (some, list(some)):
        decisions = list(decide(card, order, lambda *_: scene.sizing, records, NOW))
        made.append(decision_record(card, decisions, offers_digest(reversed(order)), records, NOW))
    first, second = made
    assert canonical(first) == canonical(second)
    subjects = {subject.name: subject.sha256 for subject in first.subject}
    assert subjects["records"] == root(record.id for record in records)
    assert subjects["card"] == card.sha256
    selected = [claim.value for claim in first.claims if claim.quantity == "selected"]
    assert selected == [decision.offer for decision in decisions if decision.state == "admissible"]
    assert set(first.inputs) <= {record.id for record in records}


@FEWER
@given(offers)
def test_the_digest_of_an_offer_is_that_of_its_canonical_form(offer):
    from capienza.canon import digest
    from capienza.decide.documents import offer_digest
    from capienza.errors import Place

    named = change(offer, notes='é "quoted" \\ \n \x7f   ', region="𝔈", place=Place(file="x.yaml", line=3))
    assert offer_digest(named) == digest(msgspec.structs.replace(named, place=Place()))
