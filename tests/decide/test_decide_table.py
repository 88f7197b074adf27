"""Every cell of the table of mandatory criteria (DESIGN section 7), word for word, with a decision of its own."""

from __future__ import annotations

import pytest
from decide_scenes import SCENES, calendar, price, usd
from decide_world import (
    SCOPE,
    at,
    change,
    codes,
    judge,
    make_card,
    make_document,
    make_ledger,
    make_offer,
    make_oom,
    make_quality,
    make_run,
    make_sizing,
    peaks,
    run_claims,
)

from capienza.card.model import Host
from capienza.catalog.offer import OfferHost
from capienza.decide.need import NOT_STATED
from capienza.evidence.record import Claim
from capienza.ledger.ledger import Ledger
from capienza.units import GIB

BROKEN = (Claim(quantity="compatibility", value="violated"),)
OVER = make_sizing(ledger=make_ledger(24 * GIB, 25 * GIB, 26 * GIB))
TWO = {"card": SCENES["two"].card, "offer": SCENES["two"].offer, "sizing": SCENES["two"].sizing}
TWO_RUN = make_run(SCENES["two"].scopes[0], run_claims(measured=peaks(gpus=2)))
DOCUMENTED = {"card": make_card(calendar=calendar(("30", "documented")))}


def weights_only():
    """All but the weights is not known."""
    whole = make_ledger(15 * GIB, 15 * GIB, 15 * GIB)
    weights, rest = whole.entries
    unknown = change(rest, amount=None, status="unknown", needs=("engine",), expected_proof=NOT_STATED(field="engine"))
    return make_sizing(ledger=Ledger(entries=(weights, unknown), gpus=whole.gpus))


# What makes a decision of each cell: criterion, state, words of the cell, the reason, and the world.
CELLS = [
    (
        "workload covered",
        "admissible",
        "all of the needed load executed at the required dimensions",
        "decide.workload-executed",
        {"records": [make_run()]},
    ),
    (
        "workload covered",
        "to confirm",
        "real dimensions unknown",
        "evidence.scope-unstated",
        {"records": [make_run(change(SCOPE, tokens=None, concurrency=None))]},
    ),
    (
        "workload covered",
        "exclude",
        "an indispensable part is dropped (model's length limit, ",
        "decide.workload-length-limit",
        {"sizing": make_sizing(max_positions=8191), "records": []},
    ),
    (
        "workload covered",
        "exclude",
        "truncated input, ",
        "decide.workload-cut",
        {"records": [make_run(claims=run_claims(truncated=1))]},
    ),
    (
        "workload covered",
        "exclude",
        "skipped corpus)",
        "decide.workload-cut",
        {"records": [make_run(claims=run_claims(dropped=1))]},
    ),
    (
        "compatibility",
        "admissible",
        "combination verified",
        "decide.compatibility-verified",
        {"records": [make_document()]},
    ),
    (
        "compatibility",
        "to confirm",
        "environment only wished for",
        "decide.compatibility-unverified",
        {"records": [], "offer": make_offer(host=OfferHost(os="linux", driver_version="580.1"), stock="available")},
    ),
    (
        "compatibility",
        "exclude",
        "an indispensable dependency is incompatible",
        "decide.compatibility-broken",
        {"records": [make_run(claims=BROKEN)]},
    ),
    (
        "memory per GPU",
        "admissible",
        "complete cycle covered with a justified margin",
        "decide.memory-covered",
        {"records": [make_run()]},
    ),
    (
        "memory per GPU",
        "to confirm",
        "weights only ",
        "decide.memory-at-least",
        {"records": [], "sizing": weights_only()},
    ),
    (
        "memory per GPU",
        "to confirm",
        "or a small test known, ",
        "evidence.scope-smaller",
        {"records": [make_run(change(SCOPE, tokens=512, concurrency=1))]},
    ),
    ("memory per GPU", "to confirm", "or predicted only", "decide.memory-predicted-only", {"records": []}),
    (
        "memory per GPU",
        "exclude",
        "saturation on the required load, ",
        "decide.memory-oom",
        {"records": [make_oom()]},
    ),
    ("memory per GPU", "exclude", "or floor > capacity", "decide.memory-floor", {"records": [], "sizing": OVER}),
    ("quality", "admissible", "thresholds met within tolerance", "decide.quality-met", {"records": [make_quality()]}),
    (
        "quality",
        "to confirm",
        "new format not evaluated",
        "decide.quality-unevaluated",
        {"sizing": make_sizing(weight_format="int4"), "records": [make_quality()]},
    ),
    (
        "quality",
        "exclude",
        "regression beyond tolerance",
        "decide.quality-missed",
        {"records": [make_quality("violated")]},
    ),
    (
        "placement and server",
        "admissible",
        "verified",
        "decide.placement-verified",
        TWO | {"records": [TWO_RUN]},
    ),
    (
        "placement and server",
        "to confirm",
        "a required property undocumented",
        "decide.ram-undocumented",
        {"offer": make_offer(host=OfferHost(disk_bytes=10**12))},
    ),
    (
        "placement and server",
        "exclude",
        "indispensable split impossible, ",
        "decide.placement-split-impossible",
        TWO | {"offer": make_offer(lots=2, cards=1, gpus_per_node=1, gpu_link="nvlink")},
    ),
    (
        "placement and server",
        "exclude",
        "or documented below the need",
        "decide.ram-below",
        {"card": make_card(host=Host(ram_bytes=256 * GIB))},
    ),
    ("budget and calendar", "admissible", "cap ", "decide.cost-within", DOCUMENTED),
    (
        "budget and calendar",
        "admissible",
        "and window met with documented durations",
        "decide.window-enough",
        DOCUMENTED,
    ),
    (
        "budget and calendar",
        "to confirm",
        "durations hypothetical",
        "decide.durations-hypothetical",
        {"card": make_card(calendar=calendar(("30", "hypothetical")))},
    ),
    (
        "budget and calendar",
        "exclude",
        "cap ",
        "decide.cost-above",
        {"offer": make_offer(price=price(money=usd("300.01")))},
    ),
    (
        "budget and calendar",
        "exclude",
        "or deadline exceeded",
        "decide.window-short",
        {"card": make_card(calendar=calendar(("30", "measured"), deadline=at(8)))},
    ),
]
NAMES = {
    "workload covered": "workload",
    "compatibility": "compatibility",
    "memory per GPU": "memory",
    "quality": "quality",
    "placement and server": "placement",
    "budget and calendar": "budget",
}
STATES = {"admissible": "admissible", "to confirm": "to_confirm", "exclude": "exclude"}


@pytest.mark.parametrize("row, state, words, code, world", CELLS, ids=[" ".join(cell[:3]) for cell in CELLS])
def test_the_decision_of_a_cell(row, state, words, code, world):
    verdict = judge(**world).criterion(NAMES[row])
    assert (verdict.state, code in codes(verdict.reasons)) == (STATES[state], True), codes(verdict.reasons)


def test_every_cell_of_the_design_is_covered_word_for_word(shared):
    lines = (shared / "DESIGN.md").read_text().splitlines()
    header = lines.index("| criterion | document to check | admissible | to confirm | exclude |")
    table = {}
    for line in lines[header + 2 : header + 2 + len(NAMES)]:
        name, _, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        table |= {(name, state): cell for state, cell in zip(STATES, cells, strict=True)}
    covered = {}
    for row, state, words, _, _ in CELLS:
        covered[row, state] = covered.get((row, state), "") + words
    assert covered == table
