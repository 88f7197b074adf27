"""The laws of the decision (DESIGN section 3, reference evidence section 2), each on random worlds."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from decide_scenes import Scene
from decide_strategies import (
    HERE,
    LAW,
    any_recipe,
    campaigns,
    judge,
    recipes,
    records_of,
    scenes,
    supporting,
    truths,
    worlds,
)
from decide_world import NOW, at, change, codes
from hypothesis import assume, given
from hypothesis import strategies as st

from capienza.canon import canonical
from capienza.decide.verdict import STATE_OF
from capienza.errors import fill
from capienza.evidence.standing import standing
from capienza.evidence.store import seal
from capienza.ledger.ledger import Ledger
from capienza.truth import all_of
from capienza.units import GIB, Money, Range


@LAW
@given(scenes, recipes, supporting)
def test_monotone(scene, drawn, recipe):
    """Taking supporting records away never moves a verdict towards admissible."""
    records = records_of(scene, drawn)
    more = list(recipe(scene, records))
    stands = standing([*records, *more], NOW)
    assume(not any(record.id in stands.weak for record in more))
    with_them = truths(judge(scene, [*records, *more]))
    gone = {record.id for record in more}
    without = truths(judge(scene, [record for record in records if record.id not in gone]))
    assert with_them.keys() == without.keys()
    for name, value in without.items():
        assert value.value <= with_them[name].value, name


@LAW
@given(campaigns, st.data())
def test_taking_a_planned_record_away_never_admits(campaign, data):
    """A plan that has all its runs protects the failed ones: without one of them, or the plan, nothing is admitted."""
    scene, planned, records = campaign
    whole = judge(scene, records)
    gone = data.draw(st.sampled_from(planned))
    rest = judge(scene, [record for record in records if record.id != gone.id])
    for old, new in zip(whole.criteria, rest.criteria, strict=True):
        assert new.state != "admissible" or old.state == "admissible", (old.criterion, codes(old.reasons))
    assert rest.state != "admissible" or whole.state == "admissible"


@LAW
@given(scenes, recipes, any_recipe)
def test_no_silent_flip(scene, drawn, recipe):
    """More records never turn a value into its opposite, unless that is listed with the records on both sides.

    One of higher rank outweighs, one withdraws, or a plan tells that a run is missing. A waived unknown is no value of
    its own: a failure ends it, and that is listed too.
    """
    records = records_of(scene, drawn)
    before = judge(scene, records)
    after = judge(scene, [*records, *recipe(scene, records)])
    for old, new in zip(before.criteria, after.criteria, strict=True):
        if {old.state, new.state} != {"admissible", "exclude"}:
            continue
        told = {reason.code for reason in new.reasons}
        kept_from = [reason.parameters["record"] for reason in new.reasons if reason.code in CURTAILED]
        if kept_from:
            assert set(kept_from) & names(old.evidence), (old.criterion, told)
        elif old.waiver:
            assert "decide.waiver-refused" in told
        else:
            overridden = [reason.parameters for reason in new.reasons if reason.code == "decide.overridden"]
            assert {one["lower"] for one in overridden} & names(old.evidence), (old.criterion, told)
            assert {one["higher"] for one in overridden} & names(new.evidence), (old.criterion, told)


CURTAILED = ("evidence.withdrawn", "evidence.plan-incomplete", "evidence.reference-missing")


def names(references: Any) -> set[str]:
    """Evidence as a sentence calls it."""
    return {ref.id[:12] if len(ref.id) == 64 else ref.id for ref in references}


@LAW
@given(worlds, st.randoms())
def test_order_free_and_deterministic(world, random):
    """Permuting, or repeating, records changes not one byte."""
    scene, records = world
    expected = canonical(judge(scene, records))
    assert canonical(judge(scene, records)) == expected
    records = records * 2
    random.shuffle(records)
    assert canonical(judge(scene, records)) == expected


@LAW
@given(worlds)
def test_explained(world):
    """What is not admissible has a reason, what is to confirm a way to settle it, and every text can be read.

    What is admissible or excluded cites what it rests on.
    """
    decision = judge(*world)
    for row in (*decision.criteria, decision.verdict):
        assert row.reasons or row.state == "admissible"
        steps = getattr(row, "settle", None) or getattr(row, "condition", ())
        assert steps or row.state != "to_confirm"
        assert row.evidence or row.state not in ("admissible", "exclude")
        for message in (*row.reasons, *steps):
            assert str(message)
            fill(message.hint, message.parameters)


@LAW
@given(worlds)
def test_strong_kleene(world):
    """Exclude beats to-confirm beats admissible, over what applies; nothing left is to confirm."""
    decision = judge(*world)
    assert STATE_OF[all_of(row.truth for row in decision.criteria if row.truth is not None)] == decision.state
    if decision.state == "admissible":
        assert all(row.evidence for row in decision.criteria if row.state != "not_applicable")
        assert all(row.state in ("admissible", "not_applicable") for row in decision.criteria)


@LAW
@given(worlds, st.sampled_from(["0.01", "1", "20"]), st.booleans())
def test_no_compensation(world, amount, is_preferred):
    """A better price, or a met preference, changes the criterion of the budget at most, and lifts no exclusion."""
    scene, records = world
    price = change(scene.offer.price, money=Money(Decimal(amount), "USD"))
    card = change(scene.card, preferences=({"provider": scene.offer.provider},) if is_preferred else ())
    cheaper = judge(scene._replace(offer=change(scene.offer, price=price, fees=()), card=card), records)
    before = judge(scene, records)
    for old, new in zip(before.criteria, cheaper.criteria, strict=True):
        if old.criterion != "budget":
            assert (old.state, codes(old.reasons)) == (new.state, codes(new.reasons))
    if any(row.state == "exclude" for row in before.criteria if row.criterion != "budget"):
        assert cheaper.state == "exclude"


def _wider_ledger(scene: Scene) -> Scene:
    def wide(amount: Range | None) -> Range | None:
        return amount and Range(max(0, amount.floor - 2 * GIB), amount.expected, amount.ceiling + 2 * GIB)

    ledger = scene.sizing.ledger
    if ledger is None:
        return scene
    entries = tuple(change(entry, amount=wide(entry.amount)) for entry in ledger.entries)
    return scene._replace(sizing=change(scene.sizing, ledger=Ledger(entries=entries, gpus=ledger.gpus)))


def _wider_capacity(less: int | None, more: int | None) -> Any:
    def shifted(amount: int | None, by: int | None) -> int | None:
        return None if amount is None or by is None else max(0, amount + by)

    def widen(scene: Scene) -> Scene:
        capacity = scene.sizing.capacity
        if capacity is None:
            return scene
        wide = change(
            capacity,
            smallest_bytes=shifted(capacity.smallest_bytes, less and -less),
            cuda_total_bytes=shifted(capacity.cuda_total_bytes, less and -less),
            largest_bytes=shifted(capacity.largest_bytes, more),
        )
        return scene._replace(sizing=change(scene.sizing, capacity=wide))

    return widen


def _one_more_candidate(scene: Scene) -> Scene:
    gpu = scene.offer.gpu
    return scene._replace(offer=change(scene.offer, gpu=change(gpu, candidates=(*gpu.candidates, "l40s"))))


def _hidden(**fields: None) -> Any:
    return lambda scene: scene._replace(offer=change(scene.offer, **fields))


def _hidden_in_host(field: str) -> Any:
    return lambda scene: scene._replace(offer=change(scene.offer, host=change(scene.offer.host, **{field: None})))


def _no_price(scene: Scene) -> Scene:
    return scene._replace(offer=change(scene.offer, price=change(scene.offer.price, money=None)))


WIDENINGS = (
    _wider_ledger,
    _wider_capacity(GIB, 0),
    _wider_capacity(0, 3 * GIB),
    _wider_capacity(GIB, None),
    _wider_capacity(None, GIB),
    _one_more_candidate,
    _no_price,
)
HIDINGS = (
    _hidden(gpus_per_node=None),
    _hidden(gpu_link=None),
    _hidden(node_link_gbit_s=None),
    *(_hidden_in_host(field) for field in ("ram_bytes", "disk_bytes", "managed_application")),
)


@LAW
@given(worlds, st.sampled_from(WIDENINGS + HIDINGS), st.sampled_from(WIDENINGS))
def test_widening_never_settles(world, first, second):
    """Less known of the need, of the capacity, or of the offer never turns unknown into a definite value."""
    scene, records = world
    # Where several documents state a property, one less may end a conflict.
    assume(first not in HIDINGS or not any(record.scope.offer == HERE for record in records))
    before, after = judge(scene, records), judge(second(first(scene)), records)
    for old, new in zip(before.criteria, after.criteria, strict=True):
        # A reading below the proved floor is a contradiction, which a lower floor takes away.
        if old.state == "to_confirm" and "decide.memory-below-floor" not in codes(old.reasons):
            assert new.state == "to_confirm", (old.criterion, codes(old.reasons), codes(new.reasons))


@LAW
@given(worlds, st.data(), st.sampled_from(["expires", "date"]))
def test_a_run_out_of_its_dates_helps_nobody(world, data, field):
    """A failure that was measured stays one after its record has ended, or when the clock that dated it was ahead."""
    scene, records = world
    # What was read of a machine is as old as its record: its end takes it away.
    runs = [
        record
        for record in records
        if record.kind == "quality_result"
        or (record.kind == "measurement" and OF_A_RUN & {claim.quantity for claim in record.claims})
    ]
    assume(runs)
    gone = data.draw(st.sampled_from(runs))
    out = {"expires": {"expires": NOW}, "date": {"date": at(28)}}[field]
    ended = seal(change(gone, **out, id="", sha256=""))
    assume(not any(gone.id in record.inputs for record in records))
    with_it = judge(scene, records)
    without = judge(scene, [ended if record.id == gone.id else record for record in records])
    for name in ("workload", "memory", "quality", "compatibility"):
        assert ORDER[without.criterion(name).state] <= ORDER[with_it.criterion(name).state], name


ORDER = {"exclude": 0, "to_confirm": 1, "admissible": 2, "not_applicable": 3}
OF_A_RUN = {"outcome", "peak_bytes", "truncated_inputs", "dropped_samples", "compatibility"}
