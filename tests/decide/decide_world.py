"""One world in which every criterion is admissible, built from small parts that a test may change."""

from __future__ import annotations

import datetime
from decimal import Decimal

import msgspec

from capienza.card.model import (
    Budget,
    Calendar,
    Card,
    Engine,
    Host,
    ModelRef,
    Placement,
    Reasoned,
    Step,
    TokenCount,
    Tokens,
    Weights,
)
from capienza.card.quality_model import Metric, Quality
from capienza.catalog.offer import Document, GpuClaim, Offer, OfferHost, Price
from capienza.decide.case import Sizing
from capienza.decide.engine import decide
from capienza.errors import Template
from capienza.evidence.claims import AS_EXPECTED, CONTROLS, threshold_text
from capienza.evidence.record import Claim, Record, Scope, Subject
from capienza.evidence.store import seal
from capienza.ledger.capacity import Capacity
from capienza.ledger.entry import Entry
from capienza.ledger.ledger import Ledger
from capienza.ledger.phase import INFERENCE_PHASES
from capienza.units import GIB, MIB, Money, Range

NOW = datetime.datetime(2026, 12, 1, 9, tzinfo=datetime.UTC)
DAY = datetime.timedelta(days=1)
REVISION = "9c925d64d72725edaf899c6cb9c377fd0709d9c5"
MODEL = "Qwen/Qwen3-8B"
REPORTED = 24564 * MIB
CUDA_TOTAL = 24080 * MIB
change = msgspec.structs.replace

BASIS = Template("test.reported", "reported")()


def at(day: int, hour: int = 0) -> datetime.datetime:
    return datetime.datetime(2026, 12, day, hour, tzinfo=datetime.UTC)


def make_card(**fields) -> Card:
    base = {
        "name": "assistant",
        "model": ModelRef(id=MODEL, revision=REVISION),
        "task": "inference",
        "weights": Weights(format="bf16"),
        "engine": Engine(name="vllm", version="0.11.2"),
        "tokens": Tokens(required=TokenCount(total=8192, prompt=6144, output=2048)),
        "concurrency": 4,
        "margin": Reasoned(amount_bytes=2 * GIB, reason="spread of three runs"),
        "quality": Quality(corpus="eval.jsonl", metrics=(Metric(name="exact_match", min=Decimal("0.82")),)),
        "placement": Placement(gpus=1),
        "host": Host(ram_bytes=64 * GIB, storage_bytes=200 * 10**9, interconnect="none", managed_application="none"),
        "budget": Budget(cap=Money(Decimal(300), "USD")),
        "calendar": Calendar(
            timezone="UTC", start=at(7), deadline=at(12), steps=(Step(name="run", hours=Decimal(30), basis="measured"),)
        ),
        "file": "somewhere/card.yaml",
        "sha256": "c" * 64,
    }
    return Card(**(base | fields))


CLAIM = GpuClaim(name_raw="RTX 4090", candidates=("rtx4090",), memory_nominal="24 GB")


def make_offer(**fields) -> Offer:
    base = {
        "id": "rtx4090-1x3d",
        "provider": "example",
        "gpu": CLAIM,
        "lots": 1,
        "cards": 1,
        "gpus_per_node": 1,
        "gpu_link": "none",
        "host": OfferHost(ram_bytes=128 * GIB, disk_bytes=500 * 10**9),
        "price": Price(
            kind="total",
            money=Money(Decimal("47.14"), "USD"),
            term_hours=Decimal(72),
            starts_at=at(7),
            ends_at=at(10),
            tax_included=True,
        ),
        "document": Document(id="rtx-4090-sheet", version="2026-11", retrieved=at(1)),
    }
    return Offer(**(base | fields))


def make_ledger(floor=15 * GIB, expected=17 * GIB, ceiling=19 * GIB, gpus=1) -> Ledger:
    entries = tuple(
        Entry(
            name=name,
            phases=INFERENCE_PHASES,
            device=f"gpu:{index}",
            amount=amount,
            status="estimated",
        )
        for index in range(gpus)
        for name, amount in (
            ("weights", Range.exact(floor)),
            ("rest", Range(0, expected - floor, ceiling - floor)),
        )
    )
    return Ledger(entries=entries, gpus=tuple(f"gpu:{index}" for index in range(gpus)))


def make_capacity(**fields) -> Capacity:
    base = {
        "largest_bytes": REPORTED,
        "largest_basis": BASIS,
        "smallest_bytes": REPORTED,
        "smallest_basis": BASIS,
        "cuda_total_bytes": CUDA_TOTAL,
    }
    return Capacity(**(base | fields))


def make_sizing(**fields) -> Sizing:
    base = {
        "ledger": make_ledger(),
        "capacity": make_capacity(),
        "max_positions": 40960,
        "max_positions_source": "config.json max_position_embeddings",
        "model_name": MODEL,
        "revision": REVISION,
        "weight_format": "bf16",
        "context_bytes": 400 * MIB,
        "source": "config.json",
    }
    return Sizing(**(base | fields))


SCOPE = Scope(
    model=MODEL,
    revision=REVISION,
    task="inference",
    weight_format="bf16",
    engine="vllm",
    engine_version="0.11.2",
    gpu="rtx4090",
    gpus=1,
    tokens=8192,
    concurrency=4,
    configuration="defaults",
)


def peaks(amount_bytes=20 * GIB, counter="device", phases=("load", "prefill", "decode"), gpus=1) -> tuple[Claim, ...]:
    return tuple(
        Claim(quantity="peak_bytes", value=amount_bytes, unit="B", phase=phase, counter=counter, gpu_index=gpu)
        for phase in phases
        for gpu in range(gpus)
    )


def run_claims(outcome="completed", truncated=0, dropped=0, measured=None) -> tuple[Claim, ...]:
    counts = [
        Claim(quantity=name, value=value)
        for name, value in (("truncated_inputs", truncated), ("dropped_samples", dropped))
        if value is not None
    ]
    outcomes = [Claim(quantity="outcome", value=outcome)] if outcome else []
    return (*outcomes, *counts, *(peaks() if measured is None else measured))


def make_run(scope=SCOPE, claims=None, **fields) -> Record:
    base = {
        "kind": "measurement",
        "version": "1",
        "date": at(1, 1),
        "scope": scope,
        "claims": run_claims() if claims is None else claims,
        "method": "measure",
        "mode": "automatic",
    }
    return seal(Record(**(base | fields)))


def make_oom(scope=SCOPE, phase="prefill", **fields) -> Record:
    return make_run(scope, (Claim(quantity="outcome", value="out_of_memory", phase=phase),), **fields)


CORPUS = (Subject(name="eval.jsonl", sha256="e" * 64),)
_FIXED = {
    "exact_match": threshold_text(Decimal("0.82"), None),
    "f1": threshold_text(None, Decimal("0.01")),
    "kl": threshold_text(None, Decimal("0.05")),
}
QUALITY_PLAN = seal(
    Record(
        kind="plan",
        version="1",
        date=at(1),
        subject=CORPUS,
        claims=tuple(Claim(quantity=metric, value="planned", basis=basis) for metric, basis in _FIXED.items()),
    )
)
"""Fixes corpus and thresholds of every quality result here; `judge` always has it among the records."""


CONTROLLED = tuple(Claim(quantity=control, value=AS_EXPECTED) for control in CONTROLS)
"""What a comparison states whose controls came out as they must."""


def make_quality(value="satisfied", scope=SCOPE, metric="exact_match", **fields) -> Record:
    basis = threshold_text(Decimal("0.82"), None)
    base = {
        "kind": "quality_result",
        "version": "1",
        "date": at(1, 1),
        "subject": CORPUS,
        "scope": scope,
        "claims": (Claim(quantity=metric, value=value, basis=basis), *CONTROLLED),
        "inputs": (),
    }
    if QUALITY_PLAN.id not in (inputs := (base | fields)["inputs"]):
        fields = fields | {"inputs": (QUALITY_PLAN.id, *inputs)}
    return seal(Record(**(base | fields)))


def make_document(quantity="compatibility", value="satisfied", scope=SCOPE, unit=None, **fields) -> Record:
    base = {
        "kind": "document",
        "version": "1",
        "date": at(1, 1),
        "scope": scope,
        "claims": (Claim(quantity=quantity, value=value, unit=unit),),
    }
    return seal(Record(**(base | fields)))


def make_waiver(criterion, scope=None, **fields) -> Record:
    base = {
        "kind": "waiver",
        "version": "1",
        "date": at(1, 1),
        "scope": scope or Scope(model=MODEL, offer="rtx4090-1x3d"),
        "claims": (Claim(quantity=criterion, value="waived"),),
        "producer": {"author": "A. Engineer"},
        "notes": ("pilot accepted by the owner",),
        "expires": at(31),
    }
    return seal(Record(**(base | fields)))


GOOD_RECORDS = (make_run(), make_quality(), QUALITY_PLAN)


def judge(card=None, offer=None, sizing=None, records=GOOD_RECORDS, now=NOW):
    """The decision on one offer."""
    sizing = make_sizing() if sizing is None else sizing
    offers = [offer or make_offer()]
    return next(decide(card or make_card(), offers, lambda *_: sizing, (*records, QUALITY_PLAN), now))


def codes(messages) -> list[str]:
    return [message.code for message in messages]
