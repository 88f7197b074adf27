"""The bootstrap over documents and the worth of clustered items."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capienza.quality.bootstrap import draws_for, interval
from capienza.quality.clusters import design_effect


def _drawn(seed: int, clusters: int, each: int, within: float) -> tuple[list[float], list[int]]:
    draw = random.Random(seed)
    differences, places = [], []
    for cluster in range(clusters):
        shared = draw.gauss(0, 1)
        for _ in range(each):
            differences.append(within * shared + (1 - within) * draw.gauss(0, 1))
            places.append(cluster)
    return differences, places


def test_few_documents_or_few_that_differ_give_no_interval() -> None:
    assert interval([0.1 * place for place in range(19)], list(range(19)), 0.025, seed=1) is None
    assert interval([0.0] * 200, list(range(200)), 0.025, seed=1) is None
    assert interval([0.0] * 181 + [0.1] * 19, list(range(200)), 0.025, seed=1) is None


def test_equal_differences_have_no_spread_and_give_no_interval() -> None:
    assert interval([0.25] * 64, list(range(64)), 0.025, seed=1) is None


def test_independent_items_agree_with_students_t() -> None:
    differences, places = _drawn(5, 400, 1, 0)
    found = interval(differences, places, 0.025, seed=2)
    mean = sum(differences) / 400
    error = (sum((value - mean) ** 2 for value in differences) / 399 / 400) ** 0.5
    assert found is not None
    assert found.lower == pytest.approx(mean - 1.966 * error, abs=0.15 * error)
    assert found.upper == pytest.approx(mean + 1.966 * error, abs=0.15 * error)


def test_items_that_share_a_fate_count_as_one() -> None:
    differences, places = _drawn(6, 100, 1, 0)
    tenfold = [value for value in differences for _ in range(10)]
    one = interval(differences, places, 0.025, seed=3)
    ten = interval(tenfold, [place for place in places for _ in range(10)], 0.025, seed=3)
    assert one is not None
    assert ten == pytest.approx(one)


def test_the_same_seed_gives_the_same_interval() -> None:
    differences, places = _drawn(7, 50, 3, 0.5)
    assert interval(differences, places, 0.025, seed=4) == interval(differences, places, 0.025, seed=4)
    assert interval(differences, places, 0.025, seed=4) != interval(differences, places, 0.025, seed=5)


def test_the_lower_end_is_wrong_about_as_often_as_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("capienza.quality.bootstrap.DRAWS", 1_000)
    wrong = 0
    for run in range(400):
        differences, places = _drawn(1_000 + run, 40, 3, 0.6)
        found = interval(differences, places, 0.025, seed=run)
        assert found is not None
        wrong += found.lower > 0
    assert wrong / 400 <= 0.05


def test_draws_are_fewer_only_past_five_thousand_documents() -> None:
    assert [draws_for(number) for number in (20, 5_000, 20_000, 10**6)] == [10_000, 10_000, 2_500, 1_000]


@given(st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=2, max_size=60), st.integers(1, 8), st.randoms())
def test_a_design_effect_lies_between_one_and_the_largest(
    differences: list[float], most: int, draw: random.Random
) -> None:
    places = sorted(draw.randrange(most) for _ in differences)
    numbered = {place: number for number, place in enumerate(dict.fromkeys(places))}
    clusters = [numbered[place] for place in places]
    sizes = [clusters.count(number) for number in range(len(numbered))]
    largest = sum(size * size for size in sizes) / len(differences)
    assert 1 <= design_effect(differences, clusters) <= max(largest, 1) + 1e-9


def test_documents_whose_items_share_a_fate_have_the_largest_design_effect() -> None:
    differences = [float(sign) for sign in (1, -1) * 25 for _ in range(4)]
    clusters = [cluster for cluster in range(50) for _ in range(4)]
    assert design_effect(differences, clusters) == pytest.approx(4, rel=0.03)
    alone = list(range(200))
    assert design_effect(differences, alone) == 1
