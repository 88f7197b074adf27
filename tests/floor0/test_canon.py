import datetime
import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capienza.canon import canonical, digest, digest_bytes, pretty
from capienza.units import Money

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


def test_canonical_form_is_sorted_compact_and_unescaped():
    assert canonical({"b": 1, "a": "è"}) == '{"a":"è","b":1}'.encode()


def test_money_and_dates_are_text():
    when = datetime.datetime(2026, 11, 30, tzinfo=datetime.UTC)
    assert canonical([Money(Decimal("47.140"), "USD"), when]) == (
        b'[{"amount":"47.140","currency":"USD"},"2026-11-30T00:00:00Z"]'
    )


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_is_none_is_refused_at_any_depth(bad):
    for value in (bad, [bad], {"a": {"b": [bad]}}):
        with pytest.raises(ValueError, match="JSON compliant"):
            canonical(value)
        with pytest.raises(ValueError, match="JSON compliant"):
            pretty(value)


@given(st.dictionaries(st.text(max_size=4), values, max_size=6))
def test_equal_facts_give_equal_bytes_whatever_their_order(value):
    backwards = dict(reversed(list(value.items())))
    assert canonical(value) == canonical(backwards)
    assert json.loads(canonical(value)) == value


def test_digest_is_that_of_the_canonical_bytes():
    assert digest({"a": 1}) == digest_bytes(b'{"a":1}')
    assert digest_bytes(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
