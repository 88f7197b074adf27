"""Figure, scope, records and texts of one offer are about one number of GPUs, whatever the card says of placement."""

import pytest
from decide_world import (
    GIB,
    NOW,
    SCOPE,
    change,
    codes,
    judge,
    make_card,
    make_ledger,
    make_offer,
    make_oom,
    make_run,
    make_sizing,
    peaks,
    run_claims,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from capienza.card.model import Placement
from capienza.decide.engine import decide

WHOLE = 30 * GIB
PLACEMENTS = {
    "not stated": None,
    "none": "none",
    "one": Placement(gpus=1),
    "two": Placement(gpus=2, tensor_parallel=2),
}


def memory_and_count(placement, cards, records=()):
    """The verdict on memory, with the number of GPUs that the prediction was asked for."""
    asked = []

    def sizing_for(_, gpus):
        asked.append(gpus)
        share = -(-WHOLE // gpus)
        return make_sizing(ledger=make_ledger(share, share, WHOLE))

    offer = make_offer(cards=cards, gpus_per_node=cards)
    (decision,) = decide(make_card(placement=placement), [offer], sizing_for, records, NOW)
    (count,) = asked
    return decision.criterion("memory"), count


def run_on(gpus, reading=20 * GIB, configuration="defaults"):
    scope = change(SCOPE, gpus=gpus, configuration=configuration)
    return make_run(scope, run_claims(measured=peaks(reading, gpus=gpus)))


@pytest.mark.parametrize("cards", [1, 2, 4])
@pytest.mark.parametrize("name", PLACEMENTS)
def test_every_text_is_about_the_gpus_of_the_figure(name, cards):
    verdict, count = memory_and_count(PLACEMENTS[name], cards)
    assert count == (cards if name == "not stated" else 2 if name == "two" else 1)
    assert [f"gpus={count}," in ref.scope for ref in verdict.evidence] == [True]
    stated = {m.parameters["gpus"] for m in (*verdict.reasons, *verdict.settle) if "gpus" in m.parameters}
    assert stated <= {count}


@settings(deadline=None)
@given(
    st.sampled_from(sorted(PLACEMENTS)),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([1, 2, 4]),
    st.sampled_from(["defaults", "tensor_parallel=2"]),
    st.sampled_from([7, 10, 16, 20]),
)
def test_memory_is_admissible_on_readings_of_the_stated_placement_alone(name, cards, gpus, configuration, reading):
    verdict, count = memory_and_count(PLACEMENTS[name], cards, [run_on(gpus, reading * GIB, configuration)])
    if verdict.state == "admissible":
        assert name != "not stated" or cards == 1
        assert gpus == count
        assert reading * GIB * gpus >= WHOLE, "a reading below the provable floor of its own configuration"


@pytest.mark.parametrize("cards", [2, 4])
@pytest.mark.parametrize("gpus", [1, 2, 4])
def test_while_no_placement_is_stated_no_run_on_several_gpus_decides(cards, gpus):
    """Neither what ran nor what failed: the card asks for none of these configurations."""
    for record in (run_on(gpus), make_oom(change(SCOPE, gpus=gpus))):
        verdict, _ = memory_and_count(None, cards, [record])
        assert verdict.state == "to_confirm"
        assert codes(verdict.settle).count("decide.requirement-not-stated") == 1
        (step,) = [step for step in verdict.settle if step.code == "decide.requirement-not-stated"]
        assert step.parameters == {"field": "placement"}
        assert "decide.settle-measure" not in codes(verdict.settle)


def test_one_gpu_leaves_no_placement_to_choose():
    sizing = make_sizing(ledger=make_ledger(18 * GIB, 18 * GIB, 18 * GIB))
    decision = judge(card=make_card(placement=None), sizing=sizing, records=[run_on(1)])
    assert decision.criterion("memory").state == "admissible"
    assert decision.criterion("placement").state == "to_confirm"


@pytest.mark.parametrize(
    "name, cards, whole, code",
    [
        ("not stated", 1, 25, "decide.memory-floor"),
        ("one", 2, 25, "decide.memory-floor"),
        ("none", 2, 25, "decide.memory-floor"),
        ("not stated", 2, 50, "decide.memory-floor-spread"),
        ("two", 2, 50, "decide.memory-floor-share"),
    ],
)
def test_what_helps_against_a_floor_fits_the_figure(name, cards, whole, code):
    """Only of a figure for one GPU is it said that a second one needs a placement that divides the model."""
    offer = make_offer(cards=cards, gpus_per_node=cards)

    def sizing_for(_, gpus):
        share = whole * GIB // gpus
        return make_sizing(ledger=make_ledger(share, share, whole * GIB))

    (decision,) = decide(make_card(placement=PLACEMENTS[name]), [offer], sizing_for, (), NOW)
    verdict = decision.criterion("memory")
    assert (verdict.state, codes(verdict.reasons)) == ("exclude", [code])
    assert ("second card" in verdict.reasons[0].hint) is (code == "decide.memory-floor")


def test_of_several_gpus_the_fullest_has_to_reach_the_floor():
    world = {
        "card": make_card(placement=PLACEMENTS["two"]),
        "offer": make_offer(cards=2, gpus_per_node=2),
        "sizing": make_sizing(ledger=make_ledger(16 * GIB, 16 * GIB, 32 * GIB)),
    }
    scope = change(SCOPE, gpus=2, configuration="tensor_parallel=2")

    def state(first, second, counter="device"):
        both = [
            change(claim, value=value * GIB)
            for claim, value in zip(peaks(counter=counter, gpus=2), (first, second) * 3, strict=True)
        ]
        verdict = judge(**world, records=[make_run(scope, run_claims(measured=tuple(both)))]).criterion("memory")
        return verdict.state, "decide.memory-below-floor" in codes(verdict.reasons)

    assert state(16, 12) == ("admissible", False)
    assert state(15, 15) == ("to_confirm", True)
    assert state(15, 15, "reserved") == ("to_confirm", True)
