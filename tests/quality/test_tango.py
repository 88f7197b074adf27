"""Tango's interval against published figures, an independent solution of its equation, and its own laws."""

from __future__ import annotations

import math
import random

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capienza.quality.tango import interval, quantile, score

PUBLISHED = [
    # Bentur 2009 as worked in Fagerland, Lydersen and Laake, Statistics in Medicine 33 (2014) 2850-2875: 1 and 7 of 21.
    (21, 1, 7, -0.517, -0.026),
    # No item differs: -z^2 / (n + z^2).
    (50, 0, 0, -0.0713, 0.0713),
    (100, 0, 0, -0.0370, 0.0370),
    (200, 0, 0, -0.0188, 0.0188),
    (400, 0, 0, -0.0095, 0.0095),
]


@pytest.mark.parametrize("count, gain, loss, lower, upper", PUBLISHED)
def test_published_figures(count: int, gain: int, loss: int, lower: float, upper: float) -> None:
    found = interval(count, gain, loss, 0.025)
    digits = 3 if abs(lower) > 0.1 else 4
    assert (round(found.lower, digits), round(found.upper, digits)) == (lower, upper)


def _quartic_ends(count: int, gain: int, loss: int, alpha: float) -> tuple[float, float]:
    """The same ends without q(D): squaring z(D)^2 = z^2 twice leaves a polynomial of degree four in D.

    With a = (gain - loss - n D)^2 / (n z^2), the equation 2 q + D (1 - D) = a gives q = (a - D + D^2) / 2, which put
    into 2n q^2 + B q - loss D (1 - D) = 0 is the polynomial. Its true roots are those where z(D) really is +-z.
    """
    z = quantile(alpha)
    d = numpy.polynomial.Polynomial([0.0, 1.0])
    q = ((gain - loss - count * d) ** 2 / (count * z * z) - d + d * d) / 2
    b = -gain - loss + (2 * count - gain + loss) * d
    roots = (2 * count * q * q + b * q - loss * d * (1 - d)).roots()
    real = [float(root.real) for root in roots if abs(root.imag) < 1e-5 and -1 - 1e-9 <= root.real <= 1 + 1e-9]
    estimate = (gain - loss) / count
    fits = [root for root in real if abs(abs(score(count, gain, loss, root)) - z) < 1e-3]
    below = [root for root in fits if root <= estimate]
    above = [root for root in fits if root >= estimate]
    return (min(below) if below else -1.0), (max(above) if above else 1.0)


def tango_cases() -> list[tuple[int, int, int, float]]:
    draw = random.Random(8)
    cases = [(1, 0, 0, 0.025), (1, 1, 0, 0.025), (1, 0, 1, 0.025), (30, 30, 0, 0.025), (30, 0, 30, 0.025)]
    cases += [(2, 1, 1, 0.05), (100, 50, 50, 0.025), (10_000, 0, 1, 0.025), (10_000, 1, 0, 0.005)]
    while len(cases) < 220:
        count = draw.choice([3, 7, 20, 50, 200, 1_000, 20_000])
        gain = draw.randint(0, count)
        cases.append((count, gain, draw.randint(0, count - gain), draw.choice([0.005, 0.025, 0.05])))
    return cases


def test_an_independent_solution_gives_the_same_ends() -> None:
    far = []
    for count, gain, loss, alpha in tango_cases():
        found, expected = interval(count, gain, loss, alpha), _quartic_ends(count, gain, loss, alpha)
        if abs(found.lower - expected[0]) > 1e-6 or abs(found.upper - expected[1]) > 1e-6:
            far.append((count, gain, loss, alpha, found, expected))
    assert not far


counts = st.integers(1, 3_000).flatmap(
    lambda count: st.integers(0, count).flatmap(
        lambda gain: st.tuples(st.just(count), st.just(gain), st.integers(0, count - gain))
    )
)


@given(counts)
def test_the_interval_holds_the_estimate_and_mirrors(given_counts: tuple[int, int, int]) -> None:
    count, gain, loss = given_counts
    found, mirrored = interval(count, gain, loss, 0.025), interval(count, loss, gain, 0.025)
    assert -1 <= found.lower <= (gain - loss) / count <= found.upper <= 1
    assert found.lower < found.upper
    assert math.isclose(found.lower, -mirrored.upper, abs_tol=1e-9)


@given(counts, st.floats(0.01, 0.99))
def test_a_loss_more_never_helps(given_counts: tuple[int, int, int], margin: float) -> None:
    count, gain, loss = given_counts
    if gain + loss < count:
        assert score(count, gain, loss + 1, -margin) <= score(count, gain, loss, -margin)
        assert interval(count, gain, loss + 1, 0.025).lower <= interval(count, gain, loss, 0.025).lower


@given(counts)
def test_a_stricter_error_rate_widens(given_counts: tuple[int, int, int]) -> None:
    strict, loose = interval(*given_counts, 0.005), interval(*given_counts, 0.05)
    assert strict.lower <= loose.lower
    assert strict.upper >= loose.upper
