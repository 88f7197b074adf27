"""One row for each criterion in each of its states, and the reasons it must give."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest
from decide_world import (
    CLAIM,
    CONTROLLED,
    GOOD_RECORDS,
    MODEL,
    NOW,
    REPORTED,
    SCOPE,
    at,
    change,
    codes,
    judge,
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

from capienza.card.model import (
    Calendar,
    Engine,
    Host,
    Placement,
    Reasoned,
    Step,
    Tokens,
    Training,
)
from capienza.card.quality_model import Metric, Quality
from capienza.catalog.offer import Document, Fee, OfferHost, Price
from capienza.decide.case import RuleFinding
from capienza.decide.cost import PRICE_UNKNOWN
from capienza.decide.engine import decide
from capienza.decide.verdict import EvidenceRef
from capienza.errors import InputError, Message
from capienza.evidence.record import Claim, Record, Scope
from capienza.evidence.store import seal
from capienza.truth import Truth
from capienza.units import GIB, MIB, Money

USD = "USD"


def usd(amount: str) -> Money:
    return Money(Decimal(amount), USD)


def price(**fields) -> Price:
    base = {"kind": "total", "money": usd("47.14"), "term_hours": Decimal(72), "starts_at": at(7), "ends_at": at(10)}
    return Price(**(base | {"tax_included": True} | fields))


def hourly(**fields) -> Price:
    base = {"kind": "per_gpu_hour", "money": usd("1.00"), "starts_at": at(7), "billing_step_s": 60}
    return Price(**(base | {"tax_included": True} | fields))


def plan(hours="30", basis="measured", **fields) -> Calendar:
    base = {"start": at(7), "deadline": at(12), "steps": (Step(name="run", hours=Decimal(hours), basis=basis),)}
    return Calendar(**(base | fields))


TWO = {
    "card": make_card(placement=Placement(gpus=2, tensor_parallel=2), host=Host(interconnect="nvlink")),
    "sizing": make_sizing(ledger=make_ledger(gpus=2)),
}
TWO_SCOPE = change(SCOPE, gpus=2, configuration="tensor_parallel=2")
TWO_RUN = make_run(TWO_SCOPE, run_claims(measured=peaks(gpus=2)))
LATER = make_quality()
CONTROL_LESS = (Claim(quantity="exact_match", value="satisfied", basis="min=0.82"),)
KL = Metric(name="kl", max_regression=Decimal("0.05"))
WITH_ALARM = make_card(
    quality=Quality(corpus="eval.jsonl", metrics=(Metric(name="exact_match", min=Decimal("0.82")), KL))
)
ALARM_ALONE = make_card(quality=Quality(corpus="eval.jsonl", metrics=(KL,)))
NO_ALARM = make_quality(claims=(Claim(quantity="kl", value="no_alarm", basis="max_regression=0.05"), *CONTROLLED))
SHARE = "engine.gpu_memory_utilization=0.8"
"""A setting that moves memory and no output."""

# (criterion, state, code that must be among the reasons, what differs from the admissible world)
GOLDEN = [
    ("workload", "admissible", "decide.workload-executed", {}),
    ("workload", "admissible", "decide.workload-executed", {"records": [make_run(change(SCOPE, tokens=9000))]}),
    ("workload", "to_confirm", "decide.workload-not-executed", {"records": []}),
    ("workload", "to_confirm", "evidence.scope-smaller", {"records": [make_run(change(SCOPE, tokens=8191))]}),
    ("workload", "to_confirm", "evidence.scope-smaller", {"records": [make_run(change(SCOPE, concurrency=3))]}),
    ("workload", "to_confirm", "evidence.scope-unstated", {"records": [make_run(change(SCOPE, tokens=None))]}),
    ("workload", "to_confirm", "evidence.expired", {"records": [make_run(expires=NOW)]}),
    (
        "workload",
        "to_confirm",
        "decide.workload-cut-unstated",
        {"records": [make_run(claims=run_claims(dropped=None))]},
    ),
    ("workload", "to_confirm", "decide.run-without-outcome", {"records": [make_run(claims=run_claims(outcome=None))]}),
    (
        "workload",
        "to_confirm",
        "decide.run-not-completed",
        {"records": [make_run(claims=run_claims(outcome="failed"))]},
    ),
    (
        "workload",
        "to_confirm",
        "decide.workload-pool-small",
        {"records": [make_run(claims=(*run_claims(), Claim(quantity="pool_tokens", value=4 * 8192 - 1)))]},
    ),
    ("workload", "to_confirm", "decide.requirement-not-stated", {"card": make_card(tokens=Tokens())}),
    ("workload", "to_confirm", "decide.requirement-not-stated", {"card": make_card(concurrency=None)}),
    (
        "workload",
        "to_confirm",
        "decide.conflict",
        {"records": [make_run(), make_run(claims=run_claims(truncated=1))]},
    ),
    ("workload", "exclude", "decide.workload-length-limit", {"sizing": make_sizing(max_positions=8191), "records": []}),
    (
        "workload",
        "to_confirm",
        "decide.workload-length-stretched",
        {"sizing": make_sizing(max_positions=8191, stretched_positions=8192), "records": []},
    ),
    (
        "workload",
        "admissible",
        "decide.workload-executed",
        {"sizing": make_sizing(max_positions=8191, stretched_positions=8192), "records": [make_run()]},
    ),
    (
        "workload",
        "exclude",
        "decide.workload-length-limit",
        {"sizing": make_sizing(max_positions=4095, stretched_positions=8191), "records": []},
    ),
    ("workload", "exclude", "decide.workload-cut", {"records": [make_run(claims=run_claims(truncated=3))]}),
    ("workload", "exclude", "decide.workload-cut", {"records": [make_run(claims=run_claims(dropped=1))]}),
    ("compatibility", "admissible", "decide.compatibility-verified", {}),
    ("compatibility", "admissible", "decide.compatibility-verified", {"records": [make_document()]}),
    (
        "compatibility",
        "admissible",
        "decide.compatibility-verified",
        {"records": [make_document(scope=change(SCOPE, gpu="any", model="any"))]},
    ),
    (
        "compatibility",
        "admissible",
        "decide.overridden",
        {"records": [make_run(), make_document(value="violated")]},
    ),
    ("compatibility", "to_confirm", "decide.compatibility-unverified", {"records": []}),
    (
        "compatibility",
        "to_confirm",
        "evidence.scope-differs",
        {"records": [make_document(scope=change(SCOPE, engine_version="0.11.3"))]},
    ),
    (
        "compatibility",
        "to_confirm",
        "decide.conflict",
        {"records": [make_document(), make_document(value="violated")]},
    ),
    ("compatibility", "to_confirm", "decide.requirement-not-stated", {"card": make_card(engine=None)}),
    ("compatibility", "to_confirm", "decide.requirement-not-stated", {"card": make_card(engine=Engine(name="vllm"))}),
    ("compatibility", "exclude", "decide.compatibility-broken", {"records": [make_document(value="violated")]}),
    (
        "compatibility",
        "exclude",
        "some.rule",
        {
            "records": [],
            "sizing": make_sizing(
                rules=(
                    RuleFinding(
                        truth=Truth.FALSE,
                        reason=Message("some.rule", "the GPU is too old", "", {}),
                        evidence=EvidenceRef(id="compat.csv"),
                    ),
                )
            ),
        },
    ),
    ("memory", "admissible", "decide.memory-covered", {}),
    (
        "memory",
        "admissible",
        "decide.memory-covered",
        {"records": [make_run(claims=run_claims(measured=peaks(REPORTED - 2 * GIB)))]},
    ),
    (
        "memory",
        "admissible",
        "decide.memory-covered",
        {"records": [make_run(claims=run_claims(measured=peaks(20 * GIB, "reserved")))]},
    ),
    ("memory", "to_confirm", "decide.memory-predicted-only", {"records": []}),
    (
        "memory",
        "to_confirm",
        "decide.memory-margin-short",
        {"records": [make_run(claims=run_claims(measured=peaks(REPORTED - 2 * GIB + 1)))]},
    ),
    (
        "memory",
        "to_confirm",
        "decide.memory-overfull",
        {"records": [make_run(claims=run_claims(measured=peaks(REPORTED + 1)))]},
    ),
    (
        "memory",
        "to_confirm",
        "decide.memory-margin-short",
        {"records": [make_run(claims=run_claims(measured=peaks((24080 - 400) * MIB - 2 * GIB + 1, "allocated")))]},
    ),
    (
        "memory",
        "to_confirm",
        "decide.memory-phases-missing",
        {"records": [make_run(claims=run_claims(measured=peaks(phases=("load", "prefill"))))]},
    ),
    (
        "memory",
        "to_confirm",
        "decide.memory-incomparable",
        {
            "records": [make_run(claims=run_claims(measured=peaks(counter="reserved")))],
            "sizing": make_sizing(context_bytes=None),
        },
    ),
    (
        "memory",
        "to_confirm",
        "decide.memory-incomparable",
        {
            "records": [make_run(claims=run_claims(measured=peaks(counter="allocated")))],
            "sizing": make_sizing(capacity=make_capacity(cuda_total_bytes=None)),
        },
    ),
    ("memory", "to_confirm", "decide.memory-margin-unreasoned", {"card": make_card(margin=Reasoned(amount_bytes=GIB))}),
    ("memory", "to_confirm", "decide.requirement-not-stated", {"card": make_card(margin=None)}),
    ("memory", "to_confirm", "decide.requirement-not-stated", {"card": make_card(engine=Engine(name="vllm"))}),
    ("memory", "to_confirm", "decide.conflict", {"records": [make_run(), make_oom()]}),
    ("memory", "to_confirm", "evidence.scope-differs", {"records": [make_run(change(SCOPE, gpu="rtx3090"))]}),
    (
        "memory",
        "to_confirm",
        "evidence.scope-differs",
        {"records": [make_run(change(SCOPE, configuration="engine.enforce_eager=true"))]},
    ),
    (
        "memory",
        "to_confirm",
        "decide.memory-below-floor",
        {"records": [make_run()], "sizing": make_sizing(ledger=make_ledger(24 * GIB, 25 * GIB, 26 * GIB))},
    ),
    (
        "memory",
        "exclude",
        "decide.memory-floor",
        {
            "records": [make_run(claims=run_claims(measured=peaks(REPORTED + GIB)))],
            "sizing": make_sizing(ledger=make_ledger(24 * GIB, 25 * GIB, 26 * GIB)),
        },
    ),
    (
        "workload",
        "admissible",
        "decide.overridden",
        {"records": [make_run()], "sizing": make_sizing(max_positions=4096)},
    ),
    (
        "memory",
        "to_confirm",
        "decide.memory-capacity-unknown",
        {
            "records": [],
            "sizing": make_sizing(capacity=make_capacity(smallest_bytes=None, cuda_total_bytes=None)),
        },
    ),
    (
        "memory",
        "to_confirm",
        "decide.memory-no-prediction",
        {"records": [], "sizing": make_sizing(ledger=None, capacity=None)},
    ),
    (
        "memory",
        "to_confirm",
        "some.refusal",
        {
            "records": [],
            "sizing": make_sizing(ledger=None, refusals=(Message("some.refusal", "not understood", "", {}),)),
        },
    ),
    (
        "memory",
        "exclude",
        "decide.memory-floor",
        {"records": [], "sizing": make_sizing(ledger=make_ledger(24 * GIB, 25 * GIB, 26 * GIB))},
    ),
    (
        "memory",
        "exclude",
        "decide.memory-floor",
        {
            "records": [],
            "card": make_card(tokens=Tokens(), engine=None, margin=None),
            "sizing": make_sizing(ledger=make_ledger(24 * GIB, 25 * GIB, 26 * GIB)),
        },
    ),
    ("memory", "exclude", "decide.memory-oom", {"records": [make_oom()]}),
    ("memory", "exclude", "decide.memory-oom", {"records": [make_oom(change(SCOPE, tokens=4096))]}),
    ("memory", "to_confirm", "decide.memory-predicted-only", {"records": [make_oom(change(SCOPE, tokens=8193))]}),
    ("memory", "to_confirm", "decide.memory-predicted-only", {"records": [make_oom(change(SCOPE, gpu="l4"))]}),
    ("quality", "admissible", "decide.quality-met", {}),
    ("quality", "to_confirm", "decide.quality-unevaluated", {"records": []}),
    ("quality", "to_confirm", "decide.quality-inconclusive", {"records": [make_quality("insufficient")]}),
    (
        "quality",
        "to_confirm",
        "evidence.scope-differs",
        {"records": [make_quality(scope=change(SCOPE, weight_format="int4"))]},
    ),
    (
        "quality",
        "admissible",
        "decide.quality-met",
        {"records": [make_quality(scope=change(SCOPE, configuration=SHARE))]},
    ),
    (
        "quality",
        "to_confirm",
        "evidence.scope-differs",
        {"records": [make_quality(scope=change(SCOPE, configuration=f"engine.enforce_eager=True; {SHARE}"))]},
    ),
    ("quality", "to_confirm", "decide.conflict", {"records": [make_quality(), make_quality("violated")]}),
    (
        "quality",
        "to_confirm",
        "decide.conflict",
        {"records": [make_quality(), make_quality("violated", scope=change(SCOPE, configuration=SHARE))]},
    ),
    ("memory", "exclude", "decide.memory-oom-somewhere", {"records": [make_oom(phase=None)]}),
    (
        "quality",
        "to_confirm",
        "decide.quality-other-thresholds",
        {
            "card": make_card(
                quality=Quality(corpus="eval.jsonl", metrics=(Metric(name="exact_match", min=Decimal("0.9")),))
            )
        },
    ),
    ("quality", "to_confirm", "decide.quality-other-corpus", {"records": [make_quality(subject=())]}),
    ("quality", "to_confirm", "decide.requirement-not-stated", {"card": make_card(quality=None)}),
    ("quality", "to_confirm", "decide.requirement-not-stated", {"card": make_card(quality=Quality())}),
    (
        "quality",
        "to_confirm",
        "decide.requirement-not-stated",
        {"card": make_card(quality=Quality(corpus="eval.jsonl", metrics=(Metric(name="exact_match"),)))},
    ),
    ("quality", "to_confirm", "decide.quality-without-control", {"records": [make_quality(claims=CONTROL_LESS)]}),
    ("quality", "admissible", "decide.quality-no-alarm", {"card": WITH_ALARM, "records": [*GOOD_RECORDS, NO_ALARM]}),
    ("quality", "to_confirm", "decide.quality-no-alarm", {"card": ALARM_ALONE, "records": [*GOOD_RECORDS, NO_ALARM]}),
    ("quality", "exclude", "decide.quality-missed", {"records": [make_quality("violated")]}),
    ("quality", "not_applicable", "decide.quality-not-applicable", {"card": make_card(quality="none")}),
    ("placement", "admissible", "decide.placement-gpus-enough", {}),
    (
        "placement",
        "admissible",
        "decide.link-enough",
        TWO
        | {"records": [TWO_RUN], "offer": make_offer(cards=2, gpus_per_node=2, gpu_link="nvlink")}
        | {
            "card": change(
                TWO["card"],
                host=Host(ram_bytes="none", storage_bytes="none", interconnect="nvlink", managed_application="none"),
            )
        },
    ),
    (
        "placement",
        "to_confirm",
        "decide.placement-unverified",
        TWO | {"records": [], "offer": make_offer(cards=2, gpus_per_node=2, gpu_link="nvlink")},
    ),
    (
        "placement",
        "to_confirm",
        "decide.placement-node-undocumented",
        TWO | {"offer": make_offer(cards=2, gpus_per_node=None, gpu_link="nvlink")},
    ),
    (
        "placement",
        "to_confirm",
        "decide.link-undocumented",
        TWO | {"offer": make_offer(cards=2, gpus_per_node=2, gpu_link=None)},
    ),
    (
        "placement",
        "to_confirm",
        "decide.placement-across-nodes-unknown",
        {
            "card": make_card(placement=Placement(gpus=4, tensor_parallel=2, pipeline_parallel=2), host="none"),
            "offer": make_offer(cards=4, gpus_per_node=2),
        },
    ),
    ("placement", "to_confirm", "decide.ram-undocumented", {"offer": make_offer(host=OfferHost(disk_bytes=10**12))}),
    (
        "placement",
        "to_confirm",
        "decide.storage-undocumented",
        {"offer": make_offer(host=OfferHost(ram_bytes=64 * GIB))},
    ),
    (
        "placement",
        "to_confirm",
        "decide.application-undocumented",
        {"card": make_card(host=Host(managed_application="Slurm"))},
    ),
    ("placement", "to_confirm", "decide.requirement-not-stated", {"card": make_card(placement=None)}),
    ("placement", "to_confirm", "decide.requirement-not-stated", {"card": make_card(host=None)}),
    ("placement", "to_confirm", "decide.document-missing", {"offer": make_offer(document=None)}),
    ("placement", "exclude", "decide.placement-gpus-too-few", TWO | {"offer": make_offer(cards=1)}),
    (
        "placement",
        "exclude",
        "decide.placement-split-impossible",
        TWO | {"offer": make_offer(lots=2, cards=1, gpus_per_node=1, gpu_link="nvlink")},
    ),
    (
        "placement",
        "exclude",
        "decide.link-below",
        TWO | {"offer": make_offer(cards=2, gpus_per_node=2, gpu_link="pcie")},
    ),
    (
        "placement",
        "exclude",
        "decide.ram-below",
        {"offer": make_offer(host=OfferHost(ram_bytes=64 * GIB - 1, disk_bytes=10**12))},
    ),
    (
        "placement",
        "exclude",
        "decide.storage-below",
        {"offer": make_offer(host=OfferHost(ram_bytes=64 * GIB, disk_bytes=1))},
    ),
    (
        "placement",
        "exclude",
        "decide.application-other",
        {
            "card": make_card(host=Host(managed_application="Slurm")),
            "offer": make_offer(host=OfferHost(managed_application="Kubernetes")),
        },
    ),
    (
        "placement",
        "not_applicable",
        "decide.placement-not-applicable",
        {"card": make_card(placement="none", host="none")},
    ),
    ("budget", "admissible", "decide.cost-within", {}),
    ("budget", "admissible", "decide.window-enough", {}),
    (
        "budget",
        "admissible",
        "decide.window-open",
        {"card": make_card(calendar=plan(deadline=None)), "offer": make_offer(price=hourly())},
    ),
    ("budget", "admissible", "decide.cost-within", {"offer": make_offer(price=hourly())}),
    ("budget", "admissible", "decide.tax-unstated", {"offer": make_offer(price=price(tax_included=None))}),
    ("budget", "admissible", "decide.cost-within", {"offer": make_offer(price=price(money=usd("300")))}),
    ("budget", "to_confirm", "decide.durations-hypothetical", {"card": make_card(calendar=plan(basis="hypothetical"))}),
    ("budget", "to_confirm", "decide.requirement-not-stated", {"card": make_card(calendar=plan(steps=()))}),
    ("budget", "to_confirm", "decide.requirement-not-stated", {"card": make_card(budget=None)}),
    ("budget", "to_confirm", "decide.requirement-not-stated", {"card": make_card(calendar=None)}),
    ("budget", "to_confirm", "decide.requirement-not-stated", {"card": make_card(calendar=Calendar())}),
    ("budget", "to_confirm", "decide.price-unknown", {"offer": make_offer(price=price(money=None))}),
    (
        "budget",
        "to_confirm",
        "decide.currency-differs",
        {"offer": make_offer(price=price(money=Money(Decimal(40), "EUR")))},
    ),
    (
        "budget",
        "to_confirm",
        "decide.offer-expired",
        {"offer": make_offer(document=Document(id="q", version="1", retrieved=at(1), valid_until=NOW))},
    ),
    (
        "budget",
        "to_confirm",
        "decide.offer-expired",
        {
            "offer": make_offer(
                price=price(money=usd("900")), document=Document(id="q", version="1", retrieved=at(1), valid_until=NOW)
            )
        },
    ),
    ("budget", "to_confirm", "decide.document-undated", {"offer": make_offer(document=Document(id="q", version="1"))}),
    ("budget", "to_confirm", "decide.document-missing", {"offer": make_offer(document=None)}),
    (
        "budget",
        "to_confirm",
        "decide.start-undocumented",
        {"offer": make_offer(price=price(starts_at=None, ends_at=None))},
    ),
    ("budget", "to_confirm", "decide.interruptible", {"offer": make_offer(price=hourly(interruptible=True))}),
    ("budget", "to_confirm", "decide.tax-unknown", {"offer": make_offer(price=price(tax_included=False))}),
    (
        "budget",
        "to_confirm",
        "decide.fee-volume-unknown",
        {"offer": make_offer(fees=(Fee(kind="egress", money=usd("0.1"), unit="per_gb"),))},
    ),
    (
        "budget",
        "to_confirm",
        "decide.cost-open",
        {"card": make_card(calendar=plan(basis="hypothetical")), "offer": make_offer(price=hourly(money=usd("20")))},
    ),
    (
        "budget",
        "to_confirm",
        "decide.nodes-unknown",
        {"offer": make_offer(gpus_per_node=None, price=hourly(kind="per_node_hour"))},
    ),
    ("budget", "exclude", "decide.cost-above", {"offer": make_offer(price=price(money=usd("300.01")))}),
    ("budget", "exclude", "decide.cost-above", {"offer": make_offer(price=hourly(money=usd("10.01")))}),
    (
        "budget",
        "exclude",
        "decide.cost-above",
        {
            "card": make_card(calendar=plan(basis="hypothetical", hours="1")),
            "offer": make_offer(price=hourly(min_hours=Decimal(301))),
        },
    ),
    (
        "budget",
        "exclude",
        "decide.cost-above",
        {"offer": make_offer(fees=(Fee(kind="setup", money=usd("252.87"), unit="once"),))},
    ),
    (
        "budget",
        "exclude",
        "decide.cost-above",
        {"offer": make_offer(price=price(money=usd("250"), tax_included=False, tax_percent=Decimal(22)))},
    ),
    ("budget", "exclude", "decide.window-shut", {"offer": make_offer(price=price(starts_at=at(12), ends_at=at(15)))}),
    ("budget", "exclude", "decide.window-short", {"offer": make_offer(price=hourly(starts_at=at(11)))}),
    ("budget", "exclude", "decide.window-short", {"card": make_card(calendar=plan(hours="73"))}),
    ("budget", "exclude", "decide.deadline-passed", {"card": make_card(calendar=plan(start=None, deadline=NOW))}),
    ("budget", "not_applicable", "decide.budget-not-applicable", {"card": make_card(budget="none", calendar="none")}),
]


@pytest.mark.parametrize("criterion, state, code, world", GOLDEN, ids=[f"{row[0]}-{row[1]}-{row[2]}" for row in GOLDEN])
def test_golden(criterion, state, code, world):
    verdict = judge(**world).criterion(criterion)
    assert verdict.state == state, codes(verdict.reasons)
    assert code in codes(verdict.reasons)


def test_every_criterion_has_every_state():
    seen = {(criterion, state) for criterion, state, _, _ in GOLDEN}
    names = ("workload", "compatibility", "memory", "quality", "placement", "budget")
    assert {(name, state) for name in names for state in ("admissible", "to_confirm", "exclude")} <= seen


def test_the_world_is_admissible_and_cites_its_evidence():
    decision = judge()
    assert decision.state == "admissible"
    run, quality, _ = GOOD_RECORDS
    memory = decision.criterion("memory").evidence
    assert [(ref.id, ref.sha256, ref.version, ref.date) for ref in memory] == [(run.id, run.id, "1", run.date)]
    assert "gpu=rtx4090" in memory[0].scope
    assert decision.criterion("quality").evidence[0].id == quality.id
    document = decision.criterion("budget").evidence[0]
    assert (document.id, document.version, document.date) == ("rtx-4090-sheet", "2026-11", at(1))
    assert len(document.sha256) == 64
    assert decision.margin.amount_bytes == REPORTED - 20 * GIB
    assert decision.margin.basis == "observed"
    assert decision.finish == at(8, 6)


class TestMemory:
    def test_one_byte_above_the_largest_capacity_is_a_proof(self):
        for floor, state in ((REPORTED, "to_confirm"), (REPORTED + 1, "exclude")):
            sizing = make_sizing(ledger=make_ledger(floor, floor, floor))
            assert judge(sizing=sizing, records=()).criterion("memory").state == state

    def test_others_use_narrows_both_sides(self):
        sizing = make_sizing(capacity=make_capacity(others_use_bytes=GIB))
        run = make_run(claims=run_claims(measured=peaks(REPORTED - 3 * GIB)))
        assert judge(sizing=sizing, records=[run]).criterion("memory").state == "admissible"
        run = make_run(claims=run_claims(measured=peaks(REPORTED - 3 * GIB + 1)))
        assert judge(sizing=sizing, records=[run]).criterion("memory").state == "to_confirm"

    def test_a_second_card_is_not_the_same_memory(self):
        ledger = make_ledger(30 * GIB, 31 * GIB, 32 * GIB)
        decision = judge(offer=make_offer(cards=8, gpus_per_node=8), sizing=make_sizing(ledger=ledger), records=())
        assert decision.criterion("memory").state == "exclude"
        assert decision.criterion("placement").state == "admissible"

    def test_every_gpu_needs_its_readings(self):
        one_gpu_only = make_run(TWO_SCOPE, run_claims(measured=peaks(gpus=1)))
        world = TWO | {"offer": make_offer(cards=2, gpus_per_node=2, gpu_link="nvlink")}
        assert judge(**world, records=[one_gpu_only]).criterion("memory").state == "to_confirm"
        assert judge(**world, records=[TWO_RUN]).criterion("memory").state == "admissible"

    def test_the_fullest_gpu_counts(self):
        claims = run_claims(measured=(*peaks(gpus=2), *peaks(REPORTED - GIB, phases=("decode",))))
        world = TWO | {"offer": make_offer(cards=2, gpus_per_node=2, gpu_link="nvlink")}
        assert judge(**world, records=[make_run(TWO_SCOPE, claims)]).criterion("memory").state == "to_confirm"

    def test_a_phase_outside_the_cycle_still_counts(self):
        claims = run_claims(measured=(*peaks(), *peaks(REPORTED - GIB, phases=("graph_capture",))))
        assert judge(records=[make_run(claims=claims)]).criterion("memory").state == "to_confirm"

    def test_the_larger_context_is_used(self):
        context = Claim(quantity="context_bytes", value=900 * MIB, unit="B")
        reading = peaks((24080 - 900) * MIB - 2 * GIB, "reserved")
        over = peaks((24080 - 900) * MIB - 2 * GIB + 1, "reserved")
        for measured, state in ((reading, "admissible"), (over, "to_confirm")):
            run = make_run(claims=(*run_claims(measured=measured), context))
            assert judge(records=[run]).criterion("memory").state == state

    def test_a_run_on_the_whole_card_says_nothing_of_a_slice(self):
        offer = make_offer(gpu=change(CLAIM, share="mig", mig_profile="1g.10gb"))
        verdict = judge(offer=offer).criterion("memory")
        assert verdict.state == "to_confirm"
        assert "rtx4090/1g.10gb" in str(verdict.reasons)

    def test_an_ambiguous_name_needs_every_candidate(self):
        offer = make_offer(gpu=change(CLAIM, candidates=("rtx4090", "rtx4090_48")))
        other = make_run(change(SCOPE, gpu="rtx4090_48"))
        one_only = judge(offer=offer).criterion("memory")
        assert one_only.state == "to_confirm"
        assert codes(one_only.reasons)[0] == "decide.gpu-ambiguous"
        assert judge(offer=offer, records=(*GOOD_RECORDS, other)).criterion("memory").state == "admissible"
        oom = [make_oom(), make_oom(change(SCOPE, gpu="rtx4090_48"))]
        assert judge(offer=offer, records=oom[:1]).criterion("memory").state == "to_confirm"
        assert judge(offer=offer, records=oom).criterion("memory").state == "exclude"

    def test_a_measurement_on_the_offer_outweighs_one_on_the_gpu(self):
        here = make_run(change(SCOPE, offer="rtx4090-1x3d"))
        verdict = judge(records=(here, make_oom(), make_quality())).criterion("memory")
        assert verdict.state == "admissible"
        assert "decide.overridden" in codes(verdict.reasons)
        assert verdict.failures[0].id == make_oom().id
        there = make_oom(change(SCOPE, offer="rtx4090-1x3d"))
        assert judge(records=(make_run(), there)).criterion("memory").state == "exclude"

    def test_training_needs_its_whole_cycle_but_for_what_the_card_leaves_out(self):
        phases = ("load", "forward", "backward", "optimizer_step_first", "optimizer_step_steady")
        options = {"eval": "none", "checkpoint": "none", "export": "none"}
        training = Training(method="lora", rank=16, optimizer="adamw", options=options)
        card = make_card(task="fine-tuning", microbatch=2, training=training)
        text = "training.checkpoint=none; training.eval=none; training.export=none; training.method=lora"
        scope = change(
            SCOPE,
            task="fine-tuning",
            concurrency=None,
            microbatch=2,
            configuration=f"{text}; training.optimizer=adamw; training.rank=16",
        )
        run = make_run(scope, run_claims(measured=peaks(phases=phases)))
        assert judge(card=card, records=[run]).criterion("memory").state == "admissible"
        full = change(card, training=change(training, options={"eval": "none"}))
        run = make_run(
            change(
                scope,
                configuration=scope.configuration.replace("training.checkpoint=none; ", "").replace(
                    "training.export=none; ", ""
                ),
            ),
            run_claims(measured=peaks(phases=phases)),
        )
        verdict = judge(card=full, records=[run]).criterion("memory")
        assert verdict.state == "to_confirm"
        assert "checkpoint, export" in " ".join(str(reason) for reason in verdict.reasons)


class TestPlacement:
    def test_gpus_that_one_copy_and_all_copies_need(self):
        from capienza.decide.case import gpus_in_all, gpus_per_copy

        table = [
            (None, 1, 1),
            ("none", 1, 1),
            (Placement(), 1, 1),
            (Placement(gpus=1, data_parallel=4), 1, 4),
            (Placement(gpus=2, tensor_parallel=2, data_parallel=4), 2, 8),
            (Placement(gpus=8, data_parallel=8), 8, 8),
            (Placement(gpus=8), 8, 8),
            (Placement(tensor_parallel=4, pipeline_parallel=2), 8, 8),
            (Placement(gpus=2, data_parallel=4), 2, 8),
        ]
        for placement, copy, everything in table:
            card = make_card(placement=placement)
            assert (gpus_per_copy(card), gpus_in_all(card)) == (copy, everything), placement

    def test_a_contract_outweighs_the_page(self):
        scope = Scope(offer="rtx4090-1x3d")
        offer = make_offer(host=OfferHost(ram_bytes=32 * GIB, disk_bytes=10**12))
        contract = make_document("ram_bytes", 128, scope, unit="GiB", producer={"source": "contract"})
        verdict = judge(offer=offer, records=(*GOOD_RECORDS, contract)).criterion("placement")
        assert verdict.state == "admissible"
        assert "decide.overridden" in codes(verdict.reasons)
        page = make_document("ram_bytes", 128, scope, unit="GiB", producer={"source": "public_page"})
        assert "decide.conflict" in codes(judge(offer=offer, records=[page]).criterion("placement").reasons)
        elsewhere = make_document("ram_bytes", 128, Scope(offer="another"), unit="GiB", producer={"source": "contract"})
        assert judge(offer=offer, records=[elsewhere]).criterion("placement").state == "exclude"

    def test_a_value_that_cannot_be_compared_is_reported(self):
        scope = Scope(offer="rtx4090-1x3d")
        offer = make_offer(host=OfferHost(disk_bytes=10**12))
        vague = make_document("ram_bytes", "plenty", scope)
        verdict = judge(offer=offer, records=[vague]).criterion("placement")
        assert verdict.state == "to_confirm"
        assert "decide.value-unreadable" in codes(verdict.reasons)

    @pytest.mark.parametrize("cards", [1, 2, 4, 8])
    def test_an_offer_with_too_few_gpus_is_not_told_to_measure_on_more(self, cards):
        card = make_card(placement=Placement(gpus=4, tensor_parallel=4))
        decision = judge(card=card, offer=make_offer(cards=cards, gpus_per_node=cards), records=())
        is_short = cards < 4
        assert (decision.criterion("placement").state == "exclude") is is_short
        for name in ("workload", "memory"):
            steps = decision.criterion(name).settle
            assert ("decide.settle-measure" in codes(steps)) is not is_short
            assert (codes(steps) == ["decide.settle-more-gpus"]) is is_short
            if is_short:
                assert steps[0].parameters == {"needed": 4, "offered": cards}

    def test_offers_of_one_gpu_class_with_and_without_enough_gpus_are_told_apart(self):
        card = make_card(placement=Placement(gpus=4, tensor_parallel=4))
        offers = [make_offer(id=str(cards), cards=cards, gpus_per_node=cards) for cards in (4, 2, 8, 1)]
        rows = list(decide(card, offers, lambda *_: make_sizing(), (), NOW))
        assert rows == [judge(card=card, offer=offer, records=()) for offer in offers]

    def test_what_a_document_has_to_state_is_named_as_the_offers_file_writes_it(self):
        import re

        from capienza.catalog.forms import FlatOffer
        from capienza.catalog.walk import columns_of
        from capienza.errors import TEMPLATES

        asked = [text.text for text in TEMPLATES.values() if text.text.startswith("have the document state")]
        named = [re.search(r"\(([\w.]+) in the offers file\)", text) for text in asked]
        assert len(asked) > 4
        assert all(match and match[1] in columns_of(FlatOffer) for match in named)


class TestBudget:
    @pytest.mark.parametrize("unit, value", [("EUR/USD", "2"), ("USD/EUR", "0.5")])
    def test_a_dated_rate_allows_the_comparison(self, unit, value):
        rate = make_document("exchange_rate", value, Scope(), unit=unit)
        for amount, state in (("150", "admissible"), ("150.01", "exclude")):
            offer = make_offer(price=price(money=Money(Decimal(amount), "EUR")))
            verdict = judge(offer=offer, records=(*GOOD_RECORDS, rate)).criterion("budget")
            assert verdict.state == state
            assert {ref.id for ref in verdict.evidence} == {"rtx-4090-sheet", rate.id}

    def test_rates_that_come_out_differently_are_a_conflict(self):
        rates = [make_document("exchange_rate", value, Scope(), unit="EUR/USD") for value in ("1", "9")]
        offer = make_offer(price=price(money=Money(Decimal(100), "EUR")))
        verdict = judge(offer=offer, records=(*GOOD_RECORDS, *rates)).criterion("budget")
        assert (verdict.state, codes(verdict.reasons)[0]) == ("to_confirm", "decide.conflict")

    @pytest.mark.parametrize("value", ["0", "-1", "much", "1e400000"])
    def test_a_rate_that_is_none(self, value):
        rate = make_document("exchange_rate", value, Scope(), unit="EUR/USD")
        offer = make_offer(price=price(money=Money(Decimal(100), "EUR")))
        verdict = judge(offer=offer, records=[rate]).criterion("budget")
        assert verdict.state == "to_confirm"
        assert codes(verdict.reasons)[:2] == ["decide.currency-differs", "decide.value-unreadable"]

    def test_summer_time_does_not_add_an_hour(self):
        import zoneinfo

        rome = zoneinfo.ZoneInfo("Europe/Rome")
        start, deadline = datetime.datetime(2027, 3, 28, tzinfo=rome), datetime.datetime(2027, 3, 28, 23, tzinfo=rome)
        offer = make_offer(price=price(starts_at=None, ends_at=None, term_hours=Decimal(72)))
        offer = change(offer, price=change(offer.price, starts_at=start))
        for hours, state in (("22", "admissible"), ("22.5", "exclude")):
            card = make_card(calendar=plan(hours=hours, start=start, deadline=deadline))
            assert judge(card=card, offer=offer).criterion("budget").state == state

    def test_a_start_from_a_contract_fills_the_gap(self):
        offer = make_offer(price=price(starts_at=None, ends_at=None))
        scope = Scope(offer="rtx4090-1x3d")
        for value, state in (
            ("2026-12-08T00:00:00Z", "admissible"),
            ("2026-12-11T00:00:00Z", "exclude"),
            ("soon", "to_confirm"),
            ("2026-12-08T00:00:00", "to_confirm"),
        ):
            record = make_document("starts_at", value, scope)
            assert judge(offer=offer, records=(*GOOD_RECORDS, record)).criterion("budget").state == state

    def test_a_stock_notice_changes_nothing(self):
        offer = make_offer(price=price(starts_at=None, ends_at=None))
        for stock in (None, "available", "limited", "none"):
            assert judge(offer=change(offer, stock=stock)).state == "to_confirm"

    def test_a_price_never_buys_off_a_failure(self):
        ledger = make_ledger(30 * GIB, 31 * GIB, 32 * GIB)
        for amount in ("0.01", "47.14", "299"):
            decision = judge(
                offer=make_offer(price=price(money=usd(amount))), sizing=make_sizing(ledger=ledger), records=()
            )
            assert decision.state == "exclude"

    def test_an_expired_offer_is_never_selected_even_without_budget(self):
        card = make_card(budget="none", calendar="none")
        document = Document(id="q", version="1", retrieved=at(1), valid_until=NOW)
        decision = judge(card=card, offer=make_offer(document=document))
        assert decision.state == "to_confirm"
        assert "decide.offer-expired" in codes(decision.verdict.reasons)

    def test_price_unknown_is_not_free(self):
        assert judge(offer=make_offer(price=price(money=None))).cost.missing == (PRICE_UNKNOWN(),)

    @pytest.mark.parametrize(
        "bases, words",
        [
            (("measured",), "measured hours"),
            (("documented",), "documented hours"),
            (("documented", "measured"), "measured or documented hours"),
            (("measured", "hypothetical"), "measured hours"),
        ],
    )
    @pytest.mark.parametrize("hours, code", [("10", "enough"), ("60", "short"), ("10", "open")])
    def test_hours_are_named_by_what_they_rest_on(self, bases, words, hours, code):
        steps = tuple(Step(name=basis, hours=Decimal(hours), basis=basis) for basis in bases)
        card = make_card(calendar=plan(steps=steps, **({"deadline": None} if code == "open" else {})))
        offer = make_offer(price=hourly(max_hours=None if code == "open" else Decimal(50)))
        reasons = judge(card=card, offer=offer).criterion("budget").reasons
        said = [reason for reason in reasons if reason.code.startswith("decide.window-")]
        if "hypothetical" in bases and code != "short":
            assert not said
        else:
            ((found, text),) = [(reason.code, str(reason)) for reason in said]
            counted = Decimal(hours) * len(set(bases) - {"hypothetical"})
            assert (found, f"{counted} {words}" in text) == (f"decide.window-{code}", True)

    @pytest.mark.parametrize("changes", [{}, {"starts_at": None}, {"money": usd("301")}])
    def test_unstated_tax_is_said_whatever_else_is_open(self, changes):
        row = judge(offer=make_offer(price=hourly(tax_included=None, **changes))).criterion("budget")
        assert codes(row.reasons).count("decide.tax-unstated") == 1


class TestFinish:
    """The documented end of the work stands beside every offer that can still be chosen."""

    def test_of_one_to_confirm(self):
        decision = judge(records=())
        assert (decision.state, decision.finish) == ("to_confirm", judge().finish)

    @pytest.mark.parametrize(
        "world",
        [
            {"offer": make_offer(price=hourly(starts_at=None))},
            {"offer": make_offer(price=hourly(interruptible=True))},
            {"offer": make_offer(document=None)},
            {"card": make_card(calendar=plan(basis="hypothetical"))},
            {"card": make_card(calendar=plan(steps=()))},
            {"card": make_card(calendar=None)},
        ],
    )
    def test_is_not_known_where_a_part_of_it_is_not(self, world):
        decision = judge(**world)
        assert (decision.state, decision.finish) == ("to_confirm", None)

    def test_of_an_excluded_one_is_not_given(self):
        assert judge(offer=make_offer(price=price(money=usd("301")))).finish is None


class TestWaivers:
    WORLD = {"records": (make_run(),)}

    def test_lets_an_unknown_pass_and_says_so(self):
        records = (make_run(), make_waiver("quality"))
        decision = judge(records=records)
        verdict = decision.criterion("quality")
        assert (decision.state, verdict.state, codes(verdict.reasons)[0]) == (
            "admissible",
            "admissible",
            "decide.waived",
        )
        assert verdict.waiver.id == records[1].id
        assert "A. Engineer" in str(verdict.reasons[0])

    @pytest.mark.parametrize("fields", [{"producer": {}}, {"notes": ()}, {"expires": None}, {"claims": ()}])
    def test_without_author_reason_end_or_criterion_it_is_no_record(self, fields):
        with pytest.raises(InputError) as refused:
            make_waiver("quality", **fields)
        assert refused.value.message.code == "evidence.waiver-incomplete"

    def test_without_the_model_it_does_not_count(self):
        waiver = make_waiver("quality", scope=Scope(offer="rtx4090-1x3d"))
        verdict = judge(records=(make_run(), waiver)).criterion("quality")
        assert verdict.state == "to_confirm"
        assert "decide.waiver-incomplete" in codes(verdict.reasons)

    @pytest.mark.parametrize(
        "scope",
        [Scope(model=MODEL, offer="another"), Scope(model="other"), Scope(model=MODEL, provider="other")],
    )
    def test_another_scope_does_not_speak(self, scope):
        assert judge(records=(make_run(), make_waiver("quality", scope))).state == "to_confirm"

    def test_a_provider_it_names(self):
        waiver = make_waiver("quality", Scope(model=MODEL, provider="example"))
        assert judge(records=(make_run(), waiver)).state == "admissible"

    def test_an_expired_waiver_stops_counting(self):
        waiver = make_waiver("quality", expires=NOW)
        assert judge(records=(make_run(), waiver)).state == "to_confirm"

    @pytest.mark.parametrize(
        "criterion, failure",
        [
            ("memory", make_oom()),
            ("quality", make_quality("violated")),
            ("workload", make_run(claims=run_claims(truncated=1))),
            ("compatibility", make_run(claims=(Claim(quantity="compatibility", value="violated"),))),
        ],
    )
    def test_never_covers_a_failure(self, criterion, failure):
        waiver = make_waiver(criterion)
        assert judge(records=(failure, waiver)).criterion(criterion).state == "exclude"
        contested = judge(records=(*GOOD_RECORDS, failure, waiver)).criterion(criterion)
        assert contested.state == "to_confirm"
        assert "decide.waiver-refused" in codes(contested.reasons)

    def test_of_an_offers_own_criterion(self):
        offer = make_offer(host=OfferHost(disk_bytes=10**12))
        waiver = make_waiver("placement")
        assert judge(offer=offer, records=(*GOOD_RECORDS, waiver)).state == "admissible"


class TestCompleteness:
    def plan_and_runs(self):
        plan_record = seal(
            Record(kind="plan", version="1", date=at(1), claims=(Claim(quantity="planned_runs", value=2),))
        )
        good = make_run(inputs=(plan_record.id,))
        oom = make_oom(inputs=(plan_record.id,))
        return plan_record, good, oom

    def test_taking_any_planned_record_away_never_admits(self):
        records = self.plan_and_runs()
        assert judge(records=(*records, LATER)).criterion("memory").state == "to_confirm"
        for gone in records:
            rest = [record for record in records if record is not gone]
            assert judge(records=(*rest, LATER)).criterion("memory").state != "admissible"

    def test_a_complete_plan_of_successes_admits(self):
        plan_record, good, _ = self.plan_and_runs()
        second = make_run(inputs=(plan_record.id,), version="2")
        assert judge(records=(plan_record, good, second, LATER)).state == "admissible"


def test_nothing_left_is_to_confirm():
    card = make_card(quality="none", placement="none", host="none", budget="none", calendar="none")
    decision = judge(card=card)
    assert decision.state == "admissible"
    rows = tuple(row for row in decision.criteria if row.state == "not_applicable")
    assert [row.criterion for row in rows] == ["quality", "placement", "budget"]
    nothing = change(decision, criteria=rows, state="to_confirm")
    assert codes(nothing.verdict.reasons) == codes(nothing.verdict.condition) == ["decide.nothing-left"]


def test_a_verdict_that_breaks_a_law_cannot_be_made():
    from capienza.decide.verdict import CriterionVerdict

    reason = (PRICE_UNKNOWN(),)
    for fields in (
        {"state": "to_confirm", "reasons": reason},
        {"state": "to_confirm", "settle": reason},
        {"state": "exclude"},
        {"state": "not_applicable"},
        {"state": "admissible", "reasons": reason},
    ):
        with pytest.raises(ValueError, match="lacks"):
            CriterionVerdict(criterion="memory", **fields)


@pytest.mark.parametrize("now", [NOW.replace(tzinfo=None)])
def test_now_needs_an_offset(now):
    with pytest.raises(ValueError, match="offset"):
        judge(now=now)


def test_a_larger_run_that_completed_stands_against_a_failure():
    """It left too little margin to support, and says all the same that the load can run."""
    larger = make_run(change(SCOPE, tokens=9000), run_claims(measured=peaks(REPORTED - GIB)))
    assert judge(records=[make_oom()]).criterion("memory").state == "exclude"
    verdict = judge(records=[make_oom(), larger]).criterion("memory")
    assert (verdict.state, verdict.reasons[0].code) == ("to_confirm", "decide.conflict")
    assert judge(records=[make_run(), larger]).criterion("memory").state == "admissible"


def test_an_exclusion_gives_what_fails_and_nothing_else():
    offer = make_offer(host=OfferHost(ram_bytes=1))
    verdict = judge(offer=offer).criterion("placement")
    assert (verdict.state, codes(verdict.reasons), verdict.settle) == ("exclude", ["decide.ram-below"], ())


class TestDrivers:
    """A record that names a driver speaks of no other; one that names none was not made for one."""

    RANGE = change(SCOPE, driver=">=550,<590")

    @pytest.mark.parametrize(
        "offered, state",
        [
            ("550.54.15", "admissible"),
            ("590.10", "to_confirm"),
            ("549.9", "to_confirm"),
            (None, "admissible"),
            ("whatever is newest", "admissible"),
        ],
    )
    def test_the_offers_driver_must_be_within_the_range(self, offered, state):
        offer = make_offer(host=OfferHost(disk_bytes=10**12, driver_version=offered))
        decision = judge(offer=offer, records=(make_run(self.RANGE), make_quality(), make_waiver("placement")))
        assert decision.state == state
        if state == "to_confirm":
            assert "evidence.scope-differs" in codes(decision.criterion("memory").reasons)

    def test_a_record_with_a_driver_changes_nothing_for_those_without(self):
        offer = make_offer(host=OfferHost(driver_version="590.10"))
        alone = judge(offer=offer)
        beside = judge(offer=offer, records=(*GOOD_RECORDS, make_run(self.RANGE)))
        assert beside.criterion("memory").state == alone.criterion("memory").state == "admissible"


def test_an_alarm_that_stays_silent_asks_for_a_metric_of_the_answers():
    verdict = judge(card=ALARM_ALONE, records=[*GOOD_RECORDS, NO_ALARM]).criterion("quality")
    assert "decide.quality-only-alarms" in codes(verdict.settle)
