"""ZeRO: the published formulas, DeepSpeed's own estimator's figures, and properties."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capienza.predict.training.parallel.units import Model, Unit, Weight
from capienza.predict.training.parallel.zero import ZeroPlan, zero, zero_auto

LAYERS, WIDTH, WORDS = 24, 2048, 50_000
LAYER = Unit(
    "layer", tuple(Weight(shape, 2) for shape in ((3 * WIDTH, WIDTH), (WIDTH, WIDTH), (8 * WIDTH, WIDTH), (WIDTH,)))
)
MODEL = Model(layers=((LAYER,),) * LAYERS, root=(Unit("root", (Weight((WORDS, WIDTH), 2),)),))
ELEMENTS = LAYERS * (12 * WIDTH**2 + WIDTH) + WORDS * WIDTH


@pytest.mark.parametrize(
    ("stage", "own"), [(1, lambda n: 4 + 12 / n), (2, lambda n: 2 + 14 / n), (3, lambda n: 16 / n)]
)
@pytest.mark.parametrize("ranks", [2, 8, 64])
def test_model_states_of_the_paper(stage: int, own, ranks: int) -> None:
    plan = ZeroPlan(stage=stage, ranks=ranks, persists=0)
    moment = zero(MODEL, plan).root
    held = moment.parameters_bytes + moment.gradients_bytes + moment.states_bytes
    assert held / ELEMENTS == pytest.approx(own(ranks), rel=1e-3)


def test_buckets_are_doubled_where_communication_overlaps() -> None:
    held = {overlaps: zero(MODEL, ZeroPlan(stage=2, ranks=8, overlaps=overlaps)).root for overlaps in (True, False)}
    assert held[False].communication_bytes == 500_000_000 * 2
    assert held[True].communication_bytes == 2 * held[False].communication_bytes


def test_offloading_leaves_weights_and_buckets() -> None:
    step = zero(MODEL, ZeroPlan(stage=2, ranks=8, offload="optimizer"))
    assert step.optimizer.held_bytes == 2 * ELEMENTS
    assert zero(MODEL, ZeroPlan(stage=3, ranks=8, offload="parameters", persists=0)).after.held_bytes == 0


def test_what_transformers_writes_for_auto() -> None:
    plan = zero_auto(ZeroPlan(stage=3, ranks=8), WIDTH)
    assert (plan.reduce_bucket, plan.prefetch, plan.persists) == (WIDTH**2, int(0.9 * WIDTH**2), 10 * WIDTH)
    assert zero_auto(ZeroPlan(stage=2, ranks=8), WIDTH).reduce_bucket == 500_000_000


@given(st.integers(1, 64), st.sampled_from([1, 2, 3]), st.booleans())
def test_a_higher_stage_or_more_ranks_keep_less(ranks: int, stage: int, overlaps: bool) -> None:
    def kept(of: int, among: int) -> int:
        return zero(MODEL, ZeroPlan(stage=of, ranks=among, overlaps=overlaps, persists=0)).optimizer.held_bytes

    assert kept(stage, 2 * ranks) <= kept(stage, ranks)
    if stage > 1:
        assert kept(stage, ranks) <= kept(stage - 1, ranks)
