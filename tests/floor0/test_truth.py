import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capienza.truth import Truth, all_of, compare_at_most

F, U, T = Truth.FALSE, Truth.UNKNOWN, Truth.TRUE
truths = st.sampled_from([F, U, T])


@pytest.mark.parametrize(
    "left, right, both, either",
    [(T, T, T, T), (T, U, U, T), (T, F, F, T), (U, U, U, U), (U, F, F, U), (F, F, F, F)],
)
def test_strong_kleene_tables(left, right, both, either):
    assert left & right is both
    assert right & left is both
    assert left | right is either
    assert right | left is either


@pytest.mark.parametrize("value, opposite", [(T, F), (U, U), (F, T)])
def test_not_swaps_the_ends(value, opposite):
    assert ~value is opposite


@pytest.mark.parametrize("value", list(Truth))
def test_no_value_can_be_collapsed_by_accident(value):
    with pytest.raises(TypeError, match="two-valued"):
        bool(value)
    with pytest.raises(TypeError):
        any([value])


def test_nothing_to_decide_on_is_unknown():
    assert all_of([]) is U


@given(st.lists(truths, min_size=1), st.randoms())
def test_conjunction_is_order_free(values, random):
    shuffled = list(values)
    random.shuffle(shuffled)
    assert all_of(values) is all_of(shuffled)


@given(truths, truths)
def test_de_morgan(left, right):
    assert ~(left & right) is (~left | ~right)


@given(*[st.integers(0, 20)] * 4)
def test_intervals_agree_with_every_pair_of_values(a, b, c, d):
    (low, high), (limit_low, limit_high) = sorted((a, b)), sorted((c, d))
    pairs = itertools.product(range(low, high + 1), range(limit_low, limit_high + 1))
    holds = {need <= limit for need, limit in pairs}
    expected = U if len(holds) == 2 else (T if True in holds else F)
    assert compare_at_most(low, high, limit_low, limit_high) is expected
