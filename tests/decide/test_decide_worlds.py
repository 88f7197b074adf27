"""The random worlds of the laws are not empty: every verdict, and every situation that a law is about, comes up often.

A law over worlds in which nothing happens holds, and proves nothing. The counts are over as many worlds as a law sees.
"""

from __future__ import annotations

from collections import Counter

import pytest
from decide_strategies import CRITERIA, LAW, campaigns, judge, worlds
from hypothesis import given

STATES = ("admissible", "to_confirm", "exclude")
OFTEN = 10
"""Times that each state of each criterion comes up at least."""
SITUATIONS = {
    "two statements of equal rank disagree": ("decide.conflict", 50),
    "a higher rank outweighs a lower one": ("decide.overridden", 25),
    "a waiver holds": ("decide.waived", 12),
    "a waiver meets a failure": ("decide.waiver-refused", 2),
    "a waiver is incomplete": ("decide.waiver-incomplete", 2),
    "a waiver meets a missing run": ("decide.waiver-run-missing", 2),
    "a record is withdrawn": ("evidence.withdrawn", 2),
    "a record has expired": ("evidence.expired", 2),
    "a record is of another scope": ("evidence.scope-differs", 50),
    "a run is too small": ("evidence.scope-smaller", 12),
    "a plan lacks a run": ("evidence.plan-lacks-runs", 12),
    "a run lacks its plan": ("evidence.reference-missing", 12),
    "a name means several GPUs": ("decide.gpu-ambiguous", 2),
    "a floor is proved": ("decide.memory-floor", 3),
    "a floor of a share is proved": ("decide.memory-floor-share", 2),
    "a prediction lacks an entry": ("decide.memory-at-least", 2),
    "a capacity is not known": ("decide.memory-capacity-unknown", 12),
    "a division over GPUs is verified": ("decide.placement-verified", 12),
    "a copy reaches over nodes": ("decide.placement-across-nodes", 12),
    "a division is impossible": ("decide.placement-split-impossible", 2),
    "there are too few GPUs": ("decide.placement-gpus-too-few", 2),
    "a link is too slow": ("decide.link-below", 2),
    "RAM is below the need": ("decide.ram-below", 2),
    "a price is converted": ("decide.cost-converted", 5),
    "a currency has no rate": ("decide.currency-differs", 12),
    "the volume of a fee is not known": ("decide.fee-volume-unknown", 2),
    "the tax is not known": ("decide.tax-unknown", 2),
    "the cap is exceeded": ("decide.cost-above", 12),
    "hours are hypothetical": ("decide.durations-hypothetical", 12),
    "the window is short": ("decide.window-short", 7),
    "the window is shut": ("decide.window-shut", 7),
    "the deadline has passed": ("decide.deadline-passed", 2),
    "an offer has expired": ("decide.offer-expired", 5),
}


@pytest.fixture(scope="module")
def seen():
    """How many worlds show each state of each criterion, and each reason."""
    counts: Counter[object] = Counter()

    @LAW
    @given(worlds)
    def look(world):
        decision = judge(*world)
        counts["all", decision.state] += 1
        counts.update((row.criterion, row.state) for row in decision.criteria)
        counts.update({reason.code for row in decision.criteria for reason in row.reasons})

    look()
    return counts


def test_every_criterion_takes_every_state(seen):
    few = {(name, state): seen[name, state] for name in (*CRITERIA, "all") for state in STATES}
    assert {pair: number for pair, number in few.items() if number < OFTEN} == {}


def test_every_situation_comes_up(seen):
    few = {words: seen[code] for words, (code, least) in SITUATIONS.items() if seen[code] < least}
    assert few == {}


def test_planned_worlds_admit_and_fail():
    """The law on plans is about worlds in which plans admit, and others in which a planned failure keeps from it."""
    counts: Counter[object] = Counter()

    @LAW
    @given(campaigns)
    def look(campaign):
        decision = judge(campaign.scene, campaign.records)
        counts.update((row.criterion, row.state) for row in decision.criteria)

    look()
    few = {(name, state): counts[name, state] for name in ("workload", "memory", "quality") for state in STATES}
    assert {pair: number for pair, number in few.items() if number < OFTEN} == {}
