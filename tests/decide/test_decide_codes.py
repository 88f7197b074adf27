"""Every reason that a decision may give is given by some decision here, or named by another test: none is dead."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import pytest
from decide_scenes import SCENES, calendar, hourly, price, ruled, usd
from decide_world import (
    GOOD_RECORDS,
    SCOPE,
    at,
    change,
    judge,
    make_capacity,
    make_card,
    make_document,
    make_ledger,
    make_offer,
    make_oom,
    make_run,
    make_sizing,
    make_waiver,
)
from test_decide_golden import GOLDEN
from test_server_verdicts import make_volumes

from capienza.card.model import Budget, Host
from capienza.catalog.offer import Document, Fee, OfferHost
from capienza.decide.case import Shortfall
from capienza.decide.server import contradictions
from capienza.decide.summary import summarise
from capienza.evidence.record import Scope
from capienza.ledger.ledger import Ledger
from capienza.units import GIB, Money

TESTS = Path(__file__).parents[1]
CODES = TESTS.parent / "docs" / "reference" / "codes.md"
HERE = Scope(offer="rtx4090-1x3d")
OVER = make_ledger(24 * GIB, 25 * GIB, 26 * GIB)


def scene(name, **more):
    return {"card": SCENES[name].card, "offer": SCENES[name].offer, "sizing": SCENES[name].sizing} | more


def without_graphs():
    whole = make_ledger()
    unknown = change(whole.entries[1], amount=None, status="unknown", needs=("a log",), expected_proof=CODE)
    return make_sizing(ledger=Ledger(entries=(whole.entries[0], unknown), gpus=whole.gpus))


CODE = make_capacity().largest_basis
EURO = make_offer(price=price(money=Money(Decimal(200), "EUR")))
RATE = make_document("exchange_rate", "1.2", Scope(), unit="EUR/USD")
# Each code with a world that gives it, beside those of the goldens.
WORLDS = {
    "decide.application-present": {
        "card": make_card(
            host=Host(ram_bytes="none", storage_bytes="none", interconnect="none", managed_application="Slurm")
        ),
        "offer": make_offer(host=OfferHost(managed_application="slurm")),
    },
    "decide.billing-step-unknown": {
        "card": make_card(calendar=calendar(("1.5", "measured"))),
        "offer": make_offer(price=hourly(billing_step_s=None)),
    },
    "decide.cost-converted": {"offer": EURO, "records": (*GOOD_RECORDS, RATE)},
    "decide.currencies-apart": {"card": make_card(budget="none"), "offer": EURO},
    "decide.document-future": {"offer": make_offer(document=Document(id="q", retrieved=at(3)))},
    "decide.fee-currency": {
        "offer": make_offer(fees=(Fee(kind="setup", money=Money(Decimal(1), "EUR"), unit="once"),))
    },
    "decide.gpu-ambiguous": scene("ambiguous"),
    "decide.hours-unknown": {"card": make_card(calendar=None), "offer": make_offer(price=hourly())},
    "decide.memory-at-least": {"sizing": without_graphs(), "records": ()},
    "decide.memory-predicted-at-least": {"sizing": without_graphs(), "records": ()},
    "decide.memory-floor-share": scene("two", sizing=make_sizing(ledger=make_ledger(24 * GIB, 25 * GIB, 26 * GIB, 2))),
    "decide.memory-floor-spread": scene(
        "open placement", sizing=make_sizing(ledger=make_ledger(24 * GIB, 25 * GIB, 26 * GIB, 4))
    ),
    "decide.memory-spread": scene("open placement", records=()),
    "decide.more-records": {"records": [make_run(change(SCOPE, gpu=f"card{number}")) for number in range(9)]},
    "decide.offer-not-yet-valid": {
        "offer": make_offer(document=Document(id="q", retrieved=at(1), valid_from=at(3))),
    },
    "decide.placement-across-nodes": scene("stages"),
    "decide.preference-unknown": {"card": make_card(preferences=({"colour": "green"},))},
    "decide.run-not-measured": {"records": [make_run(method="attest")]},
    "decide.settle-durations-open": {
        "card": make_card(
            budget=Budget(cap=usd("1e9")),
            calendar=calendar(("30", "hypothetical"), deadline=None),
        ),
        "offer": make_offer(price=hourly("0.01")),
    },
    "decide.settle-gpu": scene("ambiguous"),
    "decide.settle-no-time": {
        "card": make_card(budget=Budget(cap=usd("1")), calendar=calendar(("30", "hypothetical"))),
        "offer": make_offer(price=hourly("20")),
    },
    "decide.settle-server": {
        "sizing": ruled("0.33.0", "weights:fp8")(SCENES["one"]).sizing,
        "offer": make_offer(host=OfferHost(driver_version="570.26"), document=None),
    },
    "decide.start-unreadable": {
        "offer": make_offer(price=price(starts_at=None)),
        "records": [make_document("starts_at", "soon", HERE)],
    },
    "decide.value-unreadable": {
        "offer": make_offer(host=OfferHost()),
        "records": [make_document("ram_bytes", "plenty", HERE)],
    },
    "decide.waived": {"records": [make_run(), make_waiver("quality")]},
    "decide.waiver-incomplete": {"records": [make_waiver("quality", HERE)]},
    "decide.waiver-refused": {"records": [make_oom(), make_waiver("memory")]},
    "decide.waiver-run-missing": {"records": [make_run(inputs=("d" * 64,)), make_waiver("memory")]},
    "decide.workload-pool-predicted": {
        "sizing": make_sizing(shortfall=Shortfall(engine="vllm", pool_bytes=GIB, required_bytes=2 * GIB)),
        "records": (),
    },
    "decide.workload-queues": {"sizing": make_sizing(shortfall=Shortfall(engine="vllm")), "records": ()},
    "decide.workload-refuses": {
        "sizing": make_sizing(shortfall=Shortfall(engine="vllm", pool_bytes=0, required_bytes=1, is_refused=True)),
        "records": (),
    },
}


def given_by(world):
    """Every code in the decision on a world, in its cost, and in the notes of its shortlist."""
    card = world.get("card", make_card())
    decisions = [judge(**world)]
    if world.get("offer") is EURO:
        decisions.append(judge(card=card))
        decisions[-1] = change(decisions[-1], offer="in another currency")
    messages = [message for row in decisions[0].criteria for message in (*row.reasons, *row.settle)]
    cost = decisions[0].cost
    notes = summarise(card, decisions).shortlist.notes
    return {message.code for message in (*messages, *cost.missing, *cost.notes, *notes)}


@pytest.mark.parametrize("code", WORLDS)
def test_a_world_gives_its_reason(code):
    assert code in given_by(WORLDS[code])


def test_every_reason_is_given_by_some_decision():
    documented = set(re.findall(r"^\| `(decide\.[a-z-]+)`", CODES.read_text(), re.MULTILINE))
    given = set(WORLDS).union(*(given_by(world) for _, _, _, world in GOLDEN))
    given |= {code for code in documented if code.startswith("decide.invalid-")}  # of the page: tests/page/test_dossier
    given |= {"decide.out-or-why", "decide.one-card", "decide.process-ended"}
    given |= {"decide.age-days", "decide.age-hours"}  # words of an age, inside a reason: test_price_age shows both
    given |= {one.code for one in contradictions(make_card(host=Host(storage_bytes=1)), make_volumes())}
    # The command line's own: tests/cli asks for an offer and a criterion that are not there.
    given |= {"decide.no-such-offer", "decide.no-such-criterion", "decide.keep-alone"}
    others = "".join(path.read_text() for path in TESTS.rglob("test_*.py") if path != Path(__file__))
    assert documented
    assert sorted(code for code in documented - given if f'"{code}"' not in others) == []
