"""The gate's arithmetic against independent implementations: scipy, statsmodels, nltk, and definitions written anew."""

from __future__ import annotations

import math
import random
import re
from collections import Counter

import numpy
import pytest
from nltk.stem.porter import PorterStemmer
from scipy import optimize, stats
from statsmodels.regression.linear_model import OLS
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.proportion import proportion_confint
from test_tango import tango_cases

from capienza.quality import bootstrap, tango
from capienza.quality.clusters import design_effect
from capienza.quality.corpus import Item
from capienza.quality.metrics.overlap import chrf, rouge_l
from capienza.quality.metrics.structure import is_valid
from capienza.quality.verdict import _mcnemar, _wilson

TEXT = "the cat sat on a mat it's running quickly città perché 42 3.14 (b) no. NO connected connections"
WORDS = TEXT.split()


def _score_by_likelihood(count: int, gain: int, loss: int, difference: float) -> float:
    """z(D) from its definition alone: the likelihood is maximised under D by its derivative, no closed form used.

    With shares q of losses and q + D of gains, the derivative of the log-likelihood falls in q.
    """
    low, high = max(0.0, -difference), (1 - difference) / 2

    def slope(q: float) -> float:
        parts = ((loss, q, 1), (gain, q + difference, 1), (count - gain - loss, 1 - 2 * q - difference, -2))
        return sum(sign * number / share if share > 0 else sign * math.inf for number, share, sign in parts if number)

    width = high - low
    inner_low, inner_high = low + 1e-13 * width, high - 1e-13 * width
    if slope(inner_low) <= 0:
        share = low
    elif slope(inner_high) >= 0:
        share = high
    else:
        share = optimize.brentq(slope, inner_low, inner_high, xtol=1e-16, rtol=1e-15)
    variance = (2 * share + difference - difference**2) / count
    return ((gain - loss) / count - difference) / variance**0.5


def test_tangos_ends_are_where_the_score_from_the_likelihood_is_z() -> None:
    cases, far = tango_cases(), []
    assert len(cases) >= 200
    for count, gain, loss, alpha in cases:
        z, estimate = stats.norm.isf(alpha), (gain - loss) / count
        expected = []
        for sign, outer in ((1, -1 + 1e-12), (-1, 1 - 1e-12)):

            def distance(d: float, sign: int = sign, case: tuple = (count, gain, loss), z: float = z) -> float:
                return sign * _score_by_likelihood(*case, d) - z

            inner = estimate - sign * 1e-12
            is_at_edge = abs(estimate - outer) < 1e-9 or distance(outer) < 0
            expected.append(round(outer) if is_at_edge else optimize.brentq(distance, outer, inner, xtol=1e-13))
        found = tango.interval(count, gain, loss, alpha)
        if max(abs(a - b) for a, b in zip(found, expected, strict=True)) > 1e-6:
            far.append((count, gain, loss, alpha, found, expected))
    assert not far


@pytest.mark.parametrize("count, successes", [(1, 0), (1, 1), (20, 0), (20, 20), (300, 261), (100_000, 50_001)])
@pytest.mark.parametrize("alpha", [0.0001, 0.025, 0.2])
def test_wilsons_interval(count: int, successes: int, alpha: float) -> None:
    expected = proportion_confint(successes, count, alpha=2 * alpha, method="wilson")
    assert _wilson(successes, count, alpha) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("gain, loss", [(0, 0), (1, 0), (0, 1), (3, 3), (2, 11), (40, 15), (500, 420)])
def test_mcnemars_exact_p(gain: int, loss: int) -> None:
    expected = mcnemar([[10, gain], [loss, 10]], exact=True).pvalue if gain + loss else 1.0
    assert _mcnemar(gain, loss) == pytest.approx(min(1.0, expected), rel=1e-9)


def _clustered(seed: int, number: int, shared: float) -> tuple[numpy.ndarray, numpy.ndarray]:
    generator = numpy.random.default_rng(seed)
    sizes = generator.integers(1, 7, size=number)
    places = numpy.repeat(numpy.arange(number), sizes)
    of_cluster = generator.gamma(2.0, size=number)[places]
    return shared * of_cluster + (1 - shared) * generator.normal(size=len(places)) - 0.3, places


def _by_regression(values: numpy.ndarray, places: numpy.ndarray) -> tuple[float, float]:
    """Mean and its cluster-robust standard error, as statsmodels has them for a regression on a constant."""
    fit = OLS(values, numpy.ones(len(values))).fit(cov_type="cluster", cov_kwds={"groups": places})
    return float(fit.params[0]), float(fit.bse[0])


@pytest.mark.parametrize("seed, number, shared", [(1, 20, 0.5), (2, 80, 0.9), (3, 400, 0.0)])
def test_the_error_of_a_mean_over_clusters(seed: int, number: int, shared: float) -> None:
    values, places = _clustered(seed, number, shared)
    sums, sizes = numpy.bincount(places, weights=values), numpy.bincount(places).astype(float)
    mean, error = bootstrap._mean_and_error(sums[None, :], sizes[None, :])
    assert (float(mean[0]), float(error[0])) == pytest.approx(_by_regression(values, places), rel=1e-10)


@pytest.mark.parametrize("seed, number, shared", [(4, 25, 0.8), (5, 60, 0.4)])
def test_the_studentised_bootstrap_written_plainly(seed: int, number: int, shared: float) -> None:
    values, places = _clustered(seed, number, shared)
    found = bootstrap.interval(list(values), list(places), 0.025, seed=9)
    mean, error = _by_regression(values, places)
    sums, sizes = numpy.bincount(places, weights=values), numpy.bincount(places)
    times = numpy.random.default_rng(seed).multinomial(number, [1 / number] * number, size=40_000)
    counts = times @ sizes
    middles = times @ sums / counts
    squares = (times * (sums - middles[:, None] * sizes) ** 2).sum(axis=1)
    ratios = (middles - mean) / ((number / (number - 1) * squares) ** 0.5 / counts)
    low, high = numpy.quantile(ratios, [0.025, 0.975])
    assert found is not None
    assert found.lower == pytest.approx(mean - high * error, abs=0.15 * error)
    assert found.upper == pytest.approx(mean - low * error, abs=0.15 * error)


def test_the_design_effect_is_the_ratio_of_variances_at_its_upper_limit() -> None:
    generator = numpy.random.default_rng(6)
    places = numpy.repeat(numpy.arange(60), 5)
    values = numpy.where(generator.random(60)[places] < 0.5, generator.choice([-1.0, 1.0], 300), 1.0)
    differing = len(set(places[values != 0]))
    _, robust = _by_regression(values, places)
    plain = (((values - values.mean()) ** 2).sum()) ** 0.5 / len(values)
    limit = stats.chi2.ppf(0.05, differing) / differing
    expected = min(max((robust / plain) ** 2, 1.0) / limit, 5.0)
    assert design_effect(list(values), list(places)) == pytest.approx(expected, rel=0.005)


def _chrf_anew(output: str, accepted: str) -> float:
    """M. Popović's chrF2 from its definition: characters without spaces, orders 1 to 6 that both texts have."""
    ours, theirs = "".join(output.split()), "".join(accepted.split())
    scores = []
    for order in range(1, 7):
        grams = [Counter(text[at : at + order] for at in range(len(text) - order + 1)) for text in (ours, theirs)]
        totals = [sum(gram.values()) for gram in grams]
        if all(totals):
            both = sum((grams[0] & grams[1]).values())
            scores.append((both / totals[0], both / totals[1]))
    if not scores:
        return 0.0
    precision, recall = (sum(column) / len(scores) for column in zip(*scores, strict=True))
    return 5 * precision * recall / (4 * precision + recall) if precision + recall else 0.0


def _rouge_anew(output: str, accepted: str) -> float:
    """C.-Y. Lin's ROUGE-L, F1, on words of letters and digits, longer ones by their stem."""
    stem = PorterStemmer().stem
    first, second = (
        [stem(word) if len(word) > 3 else word for word in re.findall("[a-z0-9]+", text.lower())]
        for text in (output, accepted)
    )
    row = [0] * (len(second) + 1)
    for one in first:
        before, row = row, [0]
        for at, other in enumerate(second):
            row.append(before[at] + 1 if one == other else max(row[at], before[at + 1]))
    return 2 * row[-1] / (len(first) + len(second)) if row[-1] else 0.0


def _texts() -> list[tuple[str, str]]:
    draw = random.Random(7)
    made = [("", "a"), (" ", "a"), ("a", "a"), ("a", "b"), ("abc", "abc def"), ("x" * 400, "x"), ("ü", "u")]
    while len(made) < 120:
        made.append(tuple(" ".join(draw.choices(WORDS, k=draw.randint(1, 12))) for _ in range(2)))
    return made


@pytest.mark.parametrize("metric, anew", [(chrf, _chrf_anew), (rouge_l, _rouge_anew)])
def test_overlap_of_texts(metric, anew) -> None:
    for output, accepted in _texts():
        item = Item(id="1", cluster="1", prompt="?", expected=(accepted,))
        assert metric(item, output) == pytest.approx(anew(output, accepted), abs=1e-9), (output, accepted)


def test_the_best_of_several_accepted_answers_counts() -> None:
    item = Item(id="1", cluster="1", prompt="?", expected=("nothing alike", "the cat sat"))
    assert (chrf(item, "the cat sat"), rouge_l(item, "the cat sat")) == (1.0, 1.0)


SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer", "minimum": 0}, "tags": {"type": "array", "uniqueItems": True}},
    "required": ["n"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    "output, valid",
    [
        ('{"n": 1}', True), ('{"n": 1.0}', True), ('{"n": true}', False), ('{"n": -1}', False), ('{"n": 1.5}', False),
        ('{"n": 1, "tags": [1, 1]}', False), ('{"n": 1, "tags": [1, true]}', True), ('{"n": 1, "more": 0}', False),
        ("{}", False), ("", False), ("null", False), ("[]", False), ('{"n": 1', False), ('{"n": 1} {"n": 1}', False),
        ('```json\n{"n": 1}\n```', True), ('so:\n```\n{"n": 1}\n```\n', True), ("{'n': 1}", False),
        ('{"n": NaN}', False), ("[" * 100_000, False),
    ],
)  # fmt: skip
def test_json_against_a_schema(output: str, valid: bool) -> None:
    assert is_valid(SCHEMA, output) is valid


@pytest.mark.parametrize("output", ["NaN", "Infinity", "-Infinity", '{"a": NaN}'])
def test_what_is_no_json_is_not_valid_even_where_the_schema_accepts_all(output: str) -> None:
    assert is_valid({}, output) is False
