"""Random worlds: cards, offers, predictions and records, good ones more often than not."""

from __future__ import annotations

from decimal import Decimal

from decide_world import (
    GOOD_RECORDS,
    NOW,
    REPORTED,
    SCOPE,
    at,
    change,
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
from hypothesis import settings
from hypothesis import strategies as st

from capienza.card.model import Budget, Engine, Host, Placement, Reasoned, TokenCount, Tokens
from capienza.catalog.capability import traits_of
from capienza.catalog.offer import Document, GpuClaim, OfferHost, Price
from capienza.catalog.release import parse_release
from capienza.catalog.selection import ANY_WEIGHTS, Combination
from capienza.decide.engine import decide
from capienza.decide.ruling import rule_findings
from capienza.decide.verdict import TRUTH_OF
from capienza.evidence.record import Claim, Record, Scope
from capienza.evidence.store import seal
from capienza.units import GIB, Money

LAW = settings(max_examples=300, deadline=None)

scopes = st.sampled_from(
    [
        *[SCOPE] * 8,
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
        st.sampled_from([4 * GIB, 5 * GIB]),
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
    st.builds(
        lambda version, driver, scope: make_run(
            scope,
            (Claim(quantity="package.vllm", value=version), Claim(quantity="driver_version", value=driver)),
        ),
        st.sampled_from(["0.33.0", "0.11.2"]),
        st.just("595.71.05"),
        scopes,
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
    st.builds(
        lambda version, driver, scope: make_run(
            scope,
            (Claim(quantity="package.vllm", value=version), Claim(quantity="driver_version", value=driver)),
        ),
        st.sampled_from(["0.33.0", "0.32.0"]),
        st.sampled_from(["570.26", "?"]),
        scopes,
    ),
    st.builds(
        lambda value, producer: make_document("driver_version", value, OFFER_SCOPE, producer=producer),
        st.sampled_from(["570.26", "595.71.05", "?"]),
        sources,
    ),
    st.just(PLAN),
    st.builds(lambda scope: make_run(scope, expires=NOW), scopes),
)
record_sets = st.builds(
    lambda base, more: [*base, *more],
    st.sampled_from([(), GOOD_RECORDS, GOOD_RECORDS[:1]]),
    st.lists(positive_records | other_records, max_size=5),
)

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
    st.sampled_from([Reasoned(amount_bytes=2 * GIB, reason="spread")] * 6 + [Reasoned(amount_bytes=GIB), None]),
    st.sampled_from([*["world"] * 6, "none", None]),
    st.sampled_from([*["world"] * 6, "none", None, Host(managed_application="Slurm", interconnect="nvlink")]),
    st.sampled_from([*["world"] * 6, "none", None, Budget(cap=Money(Decimal(1), "USD"))]),
    st.sampled_from([*["world"] * 6, "none", None]),
    st.sampled_from([Engine(name="vllm", version="0.11.2")] * 9 + [Engine(name="vllm"), None]),
    st.sampled_from([Tokens(required=TokenCount(total=8192))] * 9 + [Tokens()]),
    st.sampled_from([Placement(gpus=1)] * 9 + [Placement(gpus=2, tensor_parallel=2), None, "none"]),
)
prices = st.builds(
    Price,
    kind=st.sampled_from(["total"] * 5 + ["per_gpu_hour", "per_node_hour"]),
    money=st.sampled_from([(5, "USD"), (47, "USD"), (50, "USD"), (400, "USD"), (40, "EUR"), None]).map(
        lambda price: price and Money(Decimal(price[0]), price[1])
    ),
    term_hours=st.sampled_from([None, *[Decimal(72)] * 4, Decimal(24)]),
    starts_at=st.sampled_from([None, *[at(7)] * 4, at(12)]),
    tax_included=st.sampled_from([True, True, None, None, False]),
    interruptible=st.sampled_from([*[None] * 6, True]),
)
offers = st.builds(
    make_offer,
    cards=st.sampled_from([1, 1, 2]),
    gpus_per_node=st.sampled_from([1, 2, None]),
    gpu_link=st.sampled_from([None, "pcie", "nvlink"]),
    host=st.builds(
        OfferHost,
        ram_bytes=st.sampled_from([None, GIB, *[64 * GIB] * 4]),
        disk_bytes=st.sampled_from([None, *[10**12] * 4]),
        driver_version=st.sampled_from([*[None] * 6, "595.71.05", "570.26"]),
        cuda_max=st.sampled_from([*[None] * 6, "13.2", "12.8"]),
        cpu_arch=st.sampled_from([*[None] * 6, "x86_64", "aarch64"]),
    ),
    price=prices,
    document=st.sampled_from(
        [Document(id="q", version="1", retrieved=at(1))] * 12
        + [None, Document(id="q"), Document(id="q", retrieved=at(1), valid_until=NOW)]
    ),
)
CAPACITIES = [
    *[make_capacity()] * 7,
    make_capacity(smallest_bytes=None, cuda_total_bytes=None),
    make_capacity(largest_bytes=None, smallest_bytes=None, cuda_total_bytes=None),
    None,
]
TRAITS = {"rtx4090": traits_of(GpuClaim(name_raw="RTX 4090", candidates=("rtx4090",)))[0]}


def ruled(version, *subjects):
    """The rules of one release of vLLM on the GPU of these worlds, as a sizing holds them."""
    asked = Combination(
        engine="vllm",
        version=version,
        release=parse_release(version),
        subjects=frozenset({"start", ANY_WEIGHTS, *subjects}),
    )
    return {"rules": rule_findings(asked, TRAITS), "combination": asked, "traits": TRAITS}


RULES = [
    {},
    {},
    ruled("0.11.2", "weights:fp8"),
    ruled("0.33.0", "weights:fp8"),
    ruled("0.33.0", "weights:ct-w4a8-fp8"),
    ruled("0.33.0", "attention:cutlass_mla", "weights:gguf"),
    ruled("0.12.0", "weights:fp-quant"),
]
sizings = st.builds(
    lambda floor, limit, reach, context, capacity, rules: make_sizing(
        **rules,
        ledger=None if floor is None else make_ledger(floor * GIB, (floor + 2) * GIB, (floor + 4) * GIB),
        max_positions=limit,
        stretched_positions=reach,
        context_bytes=context,
        capacity=capacity,
    ),
    st.sampled_from([15, 15, 15, 15, 15, 23, 30, None]),
    st.sampled_from([None, *[40960] * 5, 4096]),
    st.sampled_from([None, None, 131_072]),
    st.sampled_from([None, GIB]),
    st.sampled_from(CAPACITIES),
    st.sampled_from(RULES),
)
worlds = st.fixed_dictionaries({"card": cards, "offer": offers, "sizing": sizings, "records": record_sets})


def judge(card, offer, sizing, records, now=NOW):
    return next(decide(card, [offer], lambda *_: sizing, records, now))


def truths(decision):
    """The value of every applicable criterion by name, and of the whole."""
    values = {row.criterion: row.truth for row in decision.criteria if row.truth is not None}
    return values | {"all": TRUTH_OF[decision.state]}
