"""Scenes that random worlds begin from, and the single changes ("twists") that are made to them.

A scene is a card, an offer, a sizing and the scopes that a run has to state to cover the need, one for each GPU that
the seller's name may mean. With the scene's own good records every criterion that applies is admissible, so a twist
or a record changes something.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, NamedTuple

from decide_world import (
    CLAIM,
    NOW,
    SCOPE,
    at,
    change,
    make_capacity,
    make_card,
    make_ledger,
    make_offer,
    make_sizing,
)

from capienza.card.model import (
    Budget,
    Calendar,
    Card,
    Engine,
    Host,
    Placement,
    Reasoned,
    Step,
    TokenCount,
    Tokens,
    Training,
)
from capienza.card.quality_model import Metric, Quality
from capienza.catalog.capability import traits_of
from capienza.catalog.offer import Document, Fee, GpuClaim, Offer, Price
from capienza.catalog.release import parse_release
from capienza.catalog.selection import ANY_WEIGHTS, Combination
from capienza.decide.case import RuleFinding, Shortfall, Sizing
from capienza.decide.ruling import rule_findings
from capienza.decide.verdict import EvidenceRef
from capienza.errors import Message
from capienza.evidence.record import Scope
from capienza.ledger.entry import Entry
from capienza.ledger.ledger import Ledger
from capienza.ledger.phase import INFERENCE_PHASES
from capienza.truth import Truth
from capienza.units import GIB, Money


class Scene(NamedTuple):
    """Where a world begins; `gpus` of one copy, `phases` of its complete cycle."""

    card: Card
    offer: Offer
    sizing: Sizing
    scopes: tuple[Scope, ...] = (SCOPE,)
    gpus: int = 1
    phases: tuple[str, ...] = ("load", "prefill", "decode")


def usd(amount: str) -> Money:
    return Money(Decimal(amount), "USD")


def steps(*hours: tuple[str, str]) -> tuple[Step, ...]:
    return tuple(Step(name=f"{basis}-{index}", hours=Decimal(h), basis=basis) for index, (h, basis) in enumerate(hours))


def calendar(*hours: tuple[str, str], **fields: Any) -> Calendar:
    base = {"timezone": "UTC", "start": at(7), "deadline": at(12), "steps": steps(*(hours or (("30", "measured"),)))}
    return Calendar(**(base | fields))


def price(**fields: Any) -> Price:
    base = {"kind": "total", "money": usd("47.14"), "term_hours": Decimal(72), "starts_at": at(7), "ends_at": at(10)}
    return Price(**(base | {"tax_included": True} | fields))


def hourly(amount: str = "1.50", **fields: Any) -> Price:
    base = {"kind": "per_gpu_hour", "money": usd(amount), "starts_at": at(7), "billing_step_s": 3600}
    return Price(**(base | {"tax_included": True} | fields))


def _spread(gpus: int, placement: Placement, **fields: Any) -> Scene:
    stated = {name: getattr(placement, name) for name in ("pipeline_parallel", "tensor_parallel")}
    text = "; ".join(f"{name}={degree}" for name, degree in stated.items() if degree > 1)
    offer = make_offer(**({"cards": gpus, "gpus_per_node": gpus, "gpu_link": "nvlink"} | fields))
    host = Host(ram_bytes=64 * GIB, storage_bytes="none", interconnect="pcie", managed_application="none")
    return Scene(
        make_card(placement=placement, host=host),
        offer,
        make_sizing(ledger=make_ledger(gpus=gpus)),
        (change(SCOPE, gpus=gpus, configuration=text or "defaults"),),
        gpus,
    )


def _tuning() -> Scene:
    training = Training(method="lora", rank=16, options={"eval": "none", "checkpoint": "none", "export": "none"})
    card = make_card(task="fine-tuning", concurrency=None, microbatch=2, training=training)
    text = "training.checkpoint=none; training.eval=none; training.export=none; training.method=lora; training.rank=16"
    scope = change(SCOPE, task="fine-tuning", concurrency=None, microbatch=2, configuration=text)
    phases = ("load", "forward", "backward", "optimizer_step_first", "optimizer_step_steady")
    return Scene(card, make_offer(), make_sizing(), (scope,), 1, phases)


ONE = Scene(make_card(), make_offer(), make_sizing())
AMBIGUOUS = Scene(
    make_card(),
    make_offer(gpu=change(CLAIM, candidates=("rtx4090", "rtx4090_48"))),
    make_sizing(capacity=make_capacity(largest_bytes=49140 * 2**20)),
    (SCOPE, change(SCOPE, gpu="rtx4090_48")),
)
SCENES: dict[str, Scene] = {
    "one": ONE,
    "hourly": ONE._replace(offer=make_offer(price=hourly())),
    "per node": ONE._replace(
        card=make_card(placement=Placement(gpus=1, data_parallel=4)),
        offer=make_offer(cards=4, gpus_per_node=4, price=hourly(kind="per_node_hour", billing_step_s=None)),
    ),
    "ambiguous": AMBIGUOUS,
    "two": _spread(2, Placement(gpus=2, tensor_parallel=2)),
    "stages": _spread(
        4, Placement(gpus=4, tensor_parallel=2, pipeline_parallel=2), gpus_per_node=2, node_link_gbit_s=Decimal(400)
    ),
    "open placement": ONE._replace(
        card=make_card(placement=None),
        offer=make_offer(cards=4),
        sizing=make_sizing(ledger=make_ledger(gpus=4)),
        scopes=(change(SCOPE, gpus=4),),
        gpus=4,
    ),
    "slice": ONE._replace(
        offer=make_offer(gpu=change(CLAIM, share="mig", mig_profile="1g.10gb")),
        scopes=(change(SCOPE, gpu="rtx4090/1g.10gb"),),
    ),
    "fine-tuning": _tuning(),
    "euro": ONE._replace(offer=make_offer(price=price(money=Money(Decimal(200), "EUR")))),
    "asks nothing": ONE._replace(
        card=make_card(quality="none", placement="none", host="none", budget="none", calendar="none")
    ),
    "pilot": ONE._replace(
        card=make_card(calendar=calendar(("10", "measured"), ("20", "hypothetical"))), offer=make_offer(price=hourly())
    ),
}
Twist = Callable[[Scene], Scene]


def _card(**fields: Any) -> Twist:
    return lambda scene: scene._replace(card=change(scene.card, **fields))


def _offer(**fields: Any) -> Twist:
    return lambda scene: scene._replace(offer=change(scene.offer, **fields))


def _price(**fields: Any) -> Twist:
    return lambda scene: scene._replace(offer=change(scene.offer, price=change(scene.offer.price, **fields)))


def _host(**fields: Any) -> Twist:
    return lambda scene: scene._replace(offer=change(scene.offer, host=change(scene.offer.host, **fields)))


def _sizing(**fields: Any) -> Twist:
    return lambda scene: scene._replace(sizing=change(scene.sizing, **fields))


def _ledger(floor: int, expected: int, ceiling: int) -> Twist:
    def twist(scene: Scene) -> Scene:
        ledger = make_ledger(floor * GIB, expected * GIB, ceiling * GIB, scene.gpus)
        return scene._replace(sizing=change(scene.sizing, ledger=ledger))

    return twist


def _with_unknown(scene: Scene) -> Scene:
    ledger = scene.sizing.ledger
    if ledger is None:
        return scene
    proof = Message("test.proof", "measure it", "read the log", {})
    unknown = Entry(
        name="graphs",
        phases=INFERENCE_PHASES,
        device="gpu:0",
        amount=None,
        status="unknown",
        needs=("a log",),
        expected_proof=proof,
    )
    return scene._replace(
        sizing=change(scene.sizing, ledger=Ledger(entries=(*ledger.entries, unknown), gpus=ledger.gpus))
    )


def _capacity(**fields: Any) -> Twist:
    return _sizing(capacity=make_capacity(**fields))


def _rule(truth: Truth) -> RuleFinding:
    reason = Message(f"test.rule-{truth.name.lower()}", "a rule of the catalogue", "", {})
    return RuleFinding(truth=truth, reason=reason, evidence=EvidenceRef(id="rule.csv", version="1", sha256="f" * 64))


TRAITS = traits_of(GpuClaim(name_raw="RTX 4090", candidates=("rtx4090",)))[0]
"""Every GPU of these scenes is one of this kind."""


def ruled(version: str, *subjects: str) -> Twist:
    """The rules of one release of vLLM on the GPUs of these scenes, as a sizing holds them."""
    asked = Combination(
        engine="vllm",
        version=version,
        release=parse_release(version),
        subjects=frozenset({"start", ANY_WEIGHTS, *subjects}),
    )

    def twist(scene: Scene) -> Scene:
        traits = {scope.gpu: TRAITS for scope in scene.scopes if scope.gpu}
        fields = {"rules": rule_findings(asked, traits), "combination": asked, "traits": traits}
        return scene._replace(sizing=change(scene.sizing, **fields))

    return twist


def _documents() -> Iterable[Document | None]:
    yield None
    yield Document(id="q")
    yield Document(id="q", retrieved=at(1), valid_until=NOW)
    yield Document(id="q", retrieved=at(1), valid_from=at(3))
    yield Document(id="q", retrieved=at(3))
    yield Document(id="q", version="1", retrieved=at(1), valid_until=at(3))


TWO_METRICS = Quality(
    corpus="eval.jsonl",
    metrics=(Metric(name="exact_match", min=Decimal("0.82")), Metric(name="f1", max_regression=Decimal("0.01"))),
)
FULL_HOST = Host(
    ram_bytes=64 * GIB,
    storage_bytes=200 * 10**9,
    interconnect="nvlink",
    managed_application="Slurm",
    others_use_bytes=GIB,
)
CARD_TWISTS: tuple[Twist, ...] = (
    _card(margin=None),
    _card(margin=Reasoned(amount_bytes=GIB)),
    _card(margin=Reasoned(amount_bytes=5 * GIB, reason="wide")),
    _card(quality=None),
    _card(quality=TWO_METRICS),
    _card(quality=Quality(corpus="eval.jsonl")),
    _card(host=None),
    _card(host=FULL_HOST),
    _card(placement=Placement(gpus=2, tensor_parallel=2)),
    _card(placement=Placement(gpus=1, data_parallel=2)),
    _card(placement=None),
    _card(engine=None),
    _card(engine=Engine(name="vllm")),
    _card(engine=Engine(name="vllm", version="0.11.2", options={"enforce_eager": True})),
    _card(tokens=Tokens()),
    _card(tokens=Tokens(required=TokenCount(total=9000))),
    _card(budget=None),
    _card(budget=Budget(cap=usd("1"))),
    _card(budget=Budget(cap=usd("46"))),
    _card(calendar=None),
    _card(calendar="none"),
    _card(calendar=calendar(("30", "hypothetical"))),
    _card(calendar=calendar(("30", "documented"), ("50", "measured"))),
    _card(calendar=calendar(deadline=None)),
    _card(calendar=calendar(deadline=NOW)),
    _card(calendar=calendar(start=None)),
    _card(calendar=Calendar(start=at(7), deadline=at(12))),
    _card(calendar=Calendar()),
)
OFFER_TWISTS: tuple[Twist, ...] = (
    *(_offer(document=document) for document in _documents()),
    _offer(cards=1),
    _offer(cards=2),
    _offer(cards=8),
    _offer(lots=2),
    _offer(gpus_per_node=None),
    _offer(gpus_per_node=1),
    _offer(gpus_per_node=2),
    _offer(gpu_link=None),
    _offer(gpu_link="pcie"),
    _offer(node_link_gbit_s=None),
    _offer(provider="another"),
    _offer(stock="available"),
    _host(ram_bytes=None),
    _host(ram_bytes=GIB),
    _host(disk_bytes=None),
    _host(disk_bytes=1),
    _host(managed_application="Kubernetes"),
    _host(managed_application="slurm"),
    _host(driver_version="595.71.05"),
    _host(driver_version="570.26"),
    _host(cuda_max="13.2"),
    _host(cuda_max="12.8"),
    _host(cpu_arch="x86_64"),
    _host(cpu_arch="aarch64"),
    _price(money=None),
    _price(money=usd("400")),
    _price(money=usd("0.50")),
    _price(money=Money(Decimal(100), "EUR")),
    _price(money=Money(Decimal(900), "EUR")),
    _price(starts_at=None),
    _price(starts_at=at(9)),
    _price(starts_at=at(12)),
    _price(ends_at=None),
    _price(ends_at=at(8)),
    _price(usable_hours=Decimal(20)),
    _price(max_hours=Decimal(35)),
    _price(min_hours=Decimal(400)),
    _price(interruptible=True),
    _price(tax_included=None),
    _price(tax_included=False),
    _price(tax_included=False, tax_percent=Decimal(22)),
    _price(billing_step_s=None),
    _offer(price=hourly("12")),
    _offer(price=hourly("1", kind="per_node_hour")),
    _offer(fees=(Fee(kind="setup", money=usd("260"), unit="once"),)),
    *[_offer(fees=(Fee(kind="egress", money=usd("0.1"), unit="per_gb"),))] * 3,
    _offer(fees=(Fee(kind="storage", money=usd("0.1"), unit="per_gb_month", month_hours=Decimal(730)),)),
    _offer(fees=(Fee(kind="setup", money=Money(Decimal(1), "EUR"), unit="once"),)),
    _offer(
        fees=(Fee(kind="support", money=usd("10"), unit="percent"), Fee(kind="ip", money=usd("1"), unit="per_hour"))
    ),
)
SIZING_TWISTS: tuple[Twist, ...] = (
    _sizing(ledger=None),
    _ledger(23, 25, 27),
    *[_ledger(30, 32, 34)] * 3,
    _ledger(10, 12, 14),
    _with_unknown,
    _sizing(capacity=None),
    _capacity(smallest_bytes=None, cuda_total_bytes=None),
    _capacity(largest_bytes=None, smallest_bytes=None, cuda_total_bytes=None),
    _capacity(others_use_bytes=3 * GIB),
    _capacity(largest_bytes=20 * GIB, smallest_bytes=20 * GIB, cuda_total_bytes=19 * GIB),
    _sizing(max_positions=None),
    _sizing(max_positions=4096),
    _sizing(max_positions=4096, stretched_positions=131_072),
    _sizing(context_bytes=None),
    _sizing(rules=(_rule(Truth.FALSE),)),
    _sizing(rules=(_rule(Truth.UNKNOWN), _rule(Truth.TRUE))),
    ruled("0.11.2", "weights:fp8"),
    ruled("0.33.0", "weights:fp8"),
    ruled("0.33.0", "weights:ct-w4a8-fp8"),
    ruled("0.33.0", "attention:cutlass_mla", "weights:gguf"),
    ruled("0.12.0", "weights:fp-quant"),
    _sizing(shortfall=Shortfall(engine="vllm", pool_bytes=GIB, required_bytes=2 * GIB)),
    _sizing(shortfall=Shortfall(engine="vllm")),
    _sizing(weight_format="int4"),
    _sizing(revision=None),
)
