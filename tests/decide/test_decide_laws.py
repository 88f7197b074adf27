"""The laws of the decision (DESIGN section 3, reference evidence section 2), each on random worlds."""

from __future__ import annotations

from decimal import Decimal

import msgspec
from decide_world import (
    NOW,
    REPORTED,
    SCOPE,
    at,
    change,
    codes,
    make_capacity,
    make_card,
    make_document,
    make_ledger,
    make_offer,
    make_oom,
    make_quality,
    make_run,
    make_sizing,
    make_waiver,
    peaks,
    run_claims,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from capienza.canon import canonical
from capienza.card.model import Budget, Engine, Host, Placement, Reasoned, TokenCount, Tokens
from capienza.catalog.offer import Document, OfferHost, Price
from capienza.decide.engine import decide
from capienza.decide.record import decision_record, offers_digest
from capienza.decide.verdict import STATE_OF, TRUTH_OF
from capienza.errors import fill
from capienza.evidence.record import Claim, Record, Scope
from capienza.evidence.store import root, seal
from capienza.truth import all_of
from capienza.units import GIB, Money

LAW = settings(max_examples=300, deadline=None)

scopes = st.sampled_from(
    [
        SCOPE,
        SCOPE,
        SCOPE,
        change(SCOPE, tokens=9000, concurrency=8),
        change(SCOPE, tokens=4096),
        change(SCOPE, concurrency=1),
        change(SCOPE, tokens=4096, concurrency=8),
        change(SCOPE, offer="rtx4090-1x3d"),
        change(SCOPE, provider="example"),
        change(SCOPE, gpu="l4"),
        change(SCOPE, engine_version="0.11.3"),
        change(SCOPE, configuration="engine.enforce_eager=true"),
        change(SCOPE, revision=None),
    ]
)
PLAN = seal(Record(kind="plan", version="1", date=at(1), claims=(Claim(quantity="planned_runs", value=2),)))
plans = st.sampled_from([(), (), (PLAN.id,), ("d" * 64,)])
sources = st.sampled_from(["", "catalogue", "public_page", "contract"]).map(lambda source: {"source": source})
OFFER_SCOPE = Scope(offer="rtx4090-1x3d")

positive_records = st.one_of(
    st.builds(
        lambda scope, inputs, room, counter: make_run(
            scope, run_claims(measured=peaks(REPORTED - room, counter)), inputs=inputs
        ),
        scopes,
        plans,
        st.sampled_from([3 * GIB, 5 * GIB]),
        st.sampled_from(["device", "process", "reserved"]),
    ),
    st.builds(lambda scope, inputs: make_quality(scope=scope, inputs=inputs), scopes, plans),
    st.builds(
        lambda scope, producer: make_document(scope=change(scope, gpu="any"), producer=producer), scopes, sources
    ),
    st.builds(
        lambda value, producer: make_document("ram_bytes", value * GIB, OFFER_SCOPE, producer=producer),
        st.sampled_from([64, 128]),
        sources,
    ),
    st.builds(
        lambda value, producer: make_document("starts_at", value, OFFER_SCOPE, producer=producer),
        st.sampled_from(["2026-12-07T00:00:00Z", "2026-12-08T00:00:00+01:00"]),
        sources,
    ),
    st.sampled_from(["memory", "quality", "workload", "compatibility", "placement", "budget"]).map(make_waiver),
)
other_records = st.one_of(
    st.builds(lambda scope, inputs: make_oom(scope, inputs=inputs), scopes, plans),
    st.builds(
        lambda scope, cut, outcome, measured: make_run(scope, run_claims(outcome, cut, cut, measured)),
        scopes,
        st.sampled_from([0, 2, None]),
        st.sampled_from(["completed", "failed", None]),
        st.sampled_from([peaks(REPORTED - GIB), peaks(REPORTED + 1), peaks(phases=("load",)), ()]),
    ),
    st.builds(make_quality, st.sampled_from(["violated", "insufficient"]), scopes),
    st.builds(lambda scope, producer: make_document(value="violated", scope=scope, producer=producer), scopes, sources),
    st.builds(
        lambda quantity, value, producer: make_document(quantity, value, OFFER_SCOPE, producer=producer),
        st.sampled_from(["ram_bytes", "starts_at"]),
        st.sampled_from([GIB, "2026-12-30T00:00:00Z", "plenty"]),
        sources,
    ),
    st.builds(
        lambda value, producer: make_document("exchange_rate", value, Scope(), unit="EUR/USD", producer=producer),
        st.sampled_from(["1.1", "1.2", "9", "x"]),
        sources,
    ),
    st.just(PLAN),
    st.builds(lambda scope: make_run(scope, expires=NOW), scopes),
)
record_sets = st.lists(positive_records | other_records, max_size=6)

cards = st.builds(
    lambda margin, quality, host, budget, calendar, engine, tokens, placement: make_card(
        **{
            "margin": margin,
            "engine": engine,
            "tokens": tokens,
            "placement": placement,
            **({"quality": quality} if quality != "world" else {}),
            **({"host": host} if host != "world" else {}),
            **({"budget": budget} if budget != "world" else {}),
            **({"calendar": calendar} if calendar != "world" else {}),
        }
    ),
    st.sampled_from([Reasoned(amount_bytes=2 * GIB, reason="spread"), Reasoned(amount_bytes=GIB), None]),
    st.sampled_from(["world", "world", "none", None]),
    st.sampled_from(["world", "world", "none", None, Host(managed_application="Slurm", interconnect="nvlink")]),
    st.sampled_from(["world", "world", "none", None, Budget(cap=Money(Decimal(1), "USD"))]),
    st.sampled_from(["world", "world", "none", None]),
    st.sampled_from([Engine(name="vllm", version="0.11.2")] * 4 + [Engine(name="vllm"), None]),
    st.sampled_from([Tokens(required=TokenCount(total=8192))] * 4 + [Tokens()]),
    st.sampled_from([Placement(gpus=1)] * 4 + [Placement(gpus=2, tensor_parallel=2), None, "none"]),
)
prices = st.builds(
    Price,
    kind=st.sampled_from(["total", "total", "per_gpu_hour", "per_node_hour"]),
    money=st.sampled_from([Money(Decimal(n), c) for n, c in ((5, "USD"), (47, "USD"), (400, "USD"), (40, "EUR"))])
    | st.none(),
    term_hours=st.sampled_from([None, Decimal(72), Decimal(24)]),
    starts_at=st.sampled_from([None, at(7), at(12)]),
    tax_included=st.sampled_from([True, None, False]),
    interruptible=st.sampled_from([None, None, True]),
)
offers = st.builds(
    make_offer,
    cards=st.sampled_from([1, 1, 2]),
    gpus_per_node=st.sampled_from([1, 2, None]),
    gpu_link=st.sampled_from([None, "pcie", "nvlink"]),
    host=st.builds(
        OfferHost,
        ram_bytes=st.sampled_from([None, GIB, 64 * GIB]),
        disk_bytes=st.sampled_from([None, 10**12]),
    ),
    price=prices,
    document=st.sampled_from(
        [Document(id="q", version="1", retrieved=at(1))] * 4
        + [None, Document(id="q"), Document(id="q", retrieved=at(1), valid_until=NOW)]
    ),
)
sizings = st.builds(
    lambda parts, limit, context: make_sizing(ledger=make_ledger(*parts), max_positions=limit, context_bytes=context),
    st.sampled_from([(15 * GIB, 17 * GIB, 19 * GIB), (23 * GIB, 24 * GIB, 25 * GIB), (30 * GIB, 31 * GIB, 32 * GIB)]),
    st.sampled_from([None, 40960, 40960, 4096]),
    st.sampled_from([None, GIB]),
)
worlds = st.fixed_dictionaries({"card": cards, "offer": offers, "sizing": sizings, "records": record_sets})


def judge(card, offer, sizing, records, now=NOW):
    return next(decide(card, [offer], lambda *_: sizing, records, now))


def truths(decision):
    """The value of every applicable criterion by name, and of the whole."""
    values = {row.criterion: row.truth for row in decision.criteria if row.truth is not None}
    return values | {"all": TRUTH_OF[decision.state]}


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
    """One more record never turns a value into its opposite, unless it outweighs the others and that is listed."""
    before = judge(**world)
    after = judge(**world | {"records": [*world["records"], record]})
    for old, new in zip(before.criteria, after.criteria, strict=True):
        if {old.state, new.state} == {"admissible", "exclude"}:
            assert "decide.overridden" in codes(new.reasons), (old.criterion, codes(new.reasons))


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
    narrow = make_sizing(
        ledger=make_ledger(floor, expected, ceiling),
        capacity=make_capacity(largest_bytes=capacity * GIB, smallest_bytes=capacity * GIB),
    )
    wide = make_sizing(
        ledger=make_ledger(max(0, floor - widen[0] * GIB), expected, ceiling + widen[1] * GIB),
        capacity=make_capacity(
            largest_bytes=(capacity + wider) * GIB, smallest_bytes=max(0, capacity - narrower) * GIB
        ),
    )
    before, after = (
        judge(make_card(), make_offer(), sizing, records).criterion("memory").state for sizing in (narrow, wide)
    )
    if before == "to_confirm":
        assert after == "to_confirm"


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
    together = list(decide(make_card(), named, lambda *_: make_sizing(), records, NOW))
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
