"""Power and needed items: published figures, the error rate at the margin, a simulation."""

from __future__ import annotations

import random
from collections import Counter

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capienza.quality.power import clears, needed, power
from capienza.quality.tango import interval

SIX = [
    (100, 0.05, 0.02),
    (200, 0.05, 0.02),
    (500, 0.05, 0.02),
    (500, 0.1, 0.05),
    (1_000, 0.1, 0.02),
    (2_000, 0.05, 0.02),
]


@pytest.mark.parametrize("count, share, margin", SIX)
def test_a_loss_equal_to_the_margin_is_certified_rarely(count: int, share: float, margin: float) -> None:
    assert power(count, share, margin, 0.025, difference=-margin) <= 0.028


@pytest.mark.parametrize("count, share, margin", SIX)
def test_four_thousand_runs_at_a_loss_equal_to_the_margin(count: int, share: float, margin: float) -> None:
    assert simulated(count, share, margin) <= 0.028


def simulated(count: int, share: float, margin: float, difference: float | None = None, runs: int = 4_000) -> float:
    """The share of runs that certify; drawn item by item, judged by the interval's lower end itself."""
    at = -margin if difference is None else difference
    shares = [(share + at) / 2, (share - at) / 2, 1 - share]
    drawn = numpy.random.default_rng(8).multinomial(count, shares, size=runs)
    times = Counter((int(gain), int(loss)) for gain, loss, _ in drawn)
    return sum(n for (gain, loss), n in times.items() if interval(count, gain, loss, 0.025).lower > -margin) / runs


@pytest.mark.parametrize(
    "count, share, margin", [(50, 0.2, 0.1), (211, 0.05, 0.05), (421, 0.1, 0.05), (1_314, 0.05, 0.02), (40, 1.0, 0.5)]
)
def test_the_power_that_lint_states_is_that_of_drawn_comparisons(count: int, share: float, margin: float) -> None:
    stated, found = power(count, share, margin, 0.025), simulated(count, share, margin, difference=0.0)
    assert found == pytest.approx(stated, abs=4 * (0.25 / 4_000) ** 0.5)


@pytest.mark.parametrize("count, expected", [(500, 0.47), (1_000, 0.77), (2_000, 0.98)])
def test_power_as_simulated_elsewhere(count: int, expected: float) -> None:
    assert power(count, 0.05, 0.02, 0.025) == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("count, share, margin", [(60, 0.2, 0.1), (300, 0.05, 0.03)])
@pytest.mark.parametrize("difference", [0.0, -0.02])
def test_counting_out_agrees_with_drawing(count: int, share: float, margin: float, difference: float) -> None:
    draw, runs, cleared = random.Random(3), 4_000, 0
    for _ in range(runs):
        discordant = sum(draw.random() < share for _ in range(count))
        losses = sum(draw.random() < (share - difference) / (2 * share) for _ in range(discordant))
        cleared += clears(count, discordant - losses, losses, margin, 0.025)
    assert cleared / runs == pytest.approx(power(count, share, margin, 0.025, difference), abs=0.03)


@pytest.mark.parametrize("share", [0.02, 0.05, 0.1, 0.2])
@pytest.mark.parametrize("margin", [0.02, 0.05])
def test_the_needed_items_have_the_power(share: float, margin: float) -> None:
    count = needed(share, margin, 0.025, 0.9)
    assert count is not None
    assert power(count, share, margin, 0.025) >= 0.9
    assert power(int(count * 0.9), share, margin, 0.025) < 0.9


def test_a_very_small_margin_has_its_items_at_once_and_where_both_ways_meet_they_agree() -> None:
    assert needed(0.05, 0.0002, 0.025, 0.9) == pytest.approx(10.507 * 0.05 / 4e-8, rel=0.001)
    assert needed(0.2, 0.00001, 0.025, 0.9) is None
    just = needed(0.2, 0.0092, 0.025, 0.9)
    assert just is not None
    assert power(just, 0.2, 0.0092, 0.025) == pytest.approx(0.9, abs=0.01)


def test_no_number_of_items_shows_what_is_not_so() -> None:
    assert needed(0.05, 0.02, 0.025, 0.9, difference=-0.02) is None


@given(st.integers(1, 400), st.integers(0, 30), st.integers(0, 30), st.floats(0.005, 0.5))
def test_clearing_is_the_lower_end_above_the_margin(count: int, gain: int, loss: int, margin: float) -> None:
    if gain + loss <= count:
        lower = interval(count, gain, loss, 0.025).lower
        if abs(lower + margin) > 1e-9:
            assert clears(count, gain, loss, margin, 0.025) == (lower > -margin)
