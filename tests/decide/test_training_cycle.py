"""Which phases a measured cycle of a training must cover."""

from __future__ import annotations

import pytest

from capienza.card.model import Card, ModelRef, Training
from capienza.decide.readings import needed_phases
from capienza.ledger.phase import Phase

CASES = [
    ({}, False),
    ({"objective": "dpo"}, False),
    ({"objective": "grpo"}, True),
    ({"objective": "grpo", "rollout": "vllm_colocate"}, True),
    ({"objective": "grpo", "rollout": "vllm_server"}, False),
    ({"objective": "grpo", "use_vllm": True, "vllm_mode": "server"}, False),
]


@pytest.mark.parametrize("options, writes", CASES)
def test_completions_written_on_the_card_are_part_of_the_cycle(options, writes):
    card = Card(name="x", model=ModelRef(path="-"), task="fine-tuning", training=Training(options=options))
    found = needed_phases(card)
    assert (Phase.PREFILL in found, Phase.DECODE in found) == (writes, writes)
    assert {Phase.LOAD, Phase.BACKWARD} <= set(found)


def test_a_phase_that_the_card_leaves_out_is_not_needed():
    card = Card(name="x", model=ModelRef(path="-"), task="fine-tuning", training=Training(options={"eval": "none"}))
    assert Phase.EVAL not in needed_phases(card)
