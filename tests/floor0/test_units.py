from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capienza.units import (
    GIB,
    MAX_BYTES,
    UNITS,
    Money,
    NumberMarks,
    QuantityError,
    Range,
    format_money,
    format_size,
    meant_money,
    parse_money,
    parse_size,
)

ITALIAN = NumberMarks(decimal=",", group=".")


@pytest.mark.parametrize(
    "text, amount_bytes",
    [
        ("24 GB", 24 * 10**9),
        ("6 GiB", 6 * 1024**3),
        ("24564 MiB", 24564 * 1024**2),
        ("1.5 kB", 1500),
        ("0.1 GiB", 107374182),  # 107374182.4, to the nearest byte
        (" 80GB ", 80 * 10**9),
        ("0 B", 0),
    ],
)
def test_sizes_are_read_to_the_byte(text, amount_bytes):
    assert parse_size(text) == amount_bytes


@pytest.mark.parametrize(
    "text",
    ["8k", "80", "80 G", "-1 GiB", "1e3 GiB", "1,5 GiB", "80 gb", "", "٣ GiB", "9" * 30 + " B", "9" * 100 + " B"],
)
def test_ambiguous_or_unit_less_sizes_are_refused(text):
    with pytest.raises(QuantityError) as caught:
        parse_size(text)
    assert caught.value.accepted


@pytest.mark.parametrize(
    "amount_bytes, unit, decimals, shown",
    [
        (24 * 10**9, "GiB", 2, "22.35 GiB"),
        (28 * 10**9, "GiB", 2, "26.08 GiB"),
        (14 * 10**9, "GiB", 2, "13.04 GiB"),
        (7 * 10**9, "GiB", 2, "6.52 GiB"),
        (3_500_000_000, "GiB", 2, "3.26 GiB"),
        (28 * 10**9 + 6 * GIB, "GiB", 2, "32.08 GiB"),
        (16_060_522_496, "B", 0, "16,060,522,496 B"),
        (24 * 10**9, "GB", 0, "24 GB"),
    ],
)
def test_sizes_are_printed_in_the_unit_named(amount_bytes, unit, decimals, shown):
    assert format_size(amount_bytes, unit, decimals) == shown


def test_numbers_follow_the_language():
    assert format_size(1234 * GIB + GIB // 2, marks=ITALIAN) == "1.234,50 GiB"
    assert format_money(Money(Decimal("1234.5"), "EUR"), ITALIAN) == "1.234,50 EUR"


@pytest.mark.parametrize("text", ["47.14", "USD 5", "-5 USD", "1,000.00 USD", "5 usd", "5 US", "NaN USD", ""])
def test_money_needs_a_plain_amount_and_a_currency(text):
    with pytest.raises(QuantityError):
        parse_money(text)


@pytest.mark.parametrize(
    "text, meant",
    [
        ("220$", "220 USD"),
        ("1,000 usd", "1000 USD"),
        ("1,234,567.50 USD", "1234567.50 USD"),
        ("47,14 USD", "47.14 USD"),
        ("47,1 EUR", "47.1 EUR"),
        ("€ 1500,50", "1500.50 EUR"),
        ("47,14", None),
        ("1,00,000 USD", None),
        ("1234,567 USD", None),
        ("1.000,50 EUR", None),
        ("47,1457 USD", None),
    ],
)
def test_what_is_suggested_for_money_keeps_its_value(text, meant):
    assert meant_money(text) == meant


@pytest.mark.parametrize("digits", [1, 27, 28, 29, 200])
def test_numbers_of_any_length_are_printed(digits):
    number = 10**digits
    assert format_size(number, "B").replace(",", "") == f"{number} B"
    assert format_size(number)
    assert format_money(Money(Decimal(number) + Decimal("0.25"), "USD")).replace(",", "").startswith(str(number)[:20])


def test_money_keeps_its_decimals():
    assert parse_money("47.140 USD") == Money(Decimal("47.140"), "USD")
    assert str(parse_money("47.14 USD")) == "47.14 USD"


@given(st.integers(0, MAX_BYTES // 1024**5), st.sampled_from(sorted(UNITS)))
def test_whole_sizes_survive_a_round_trip(number, unit):
    assert parse_size(f"{number} {unit}") == number * UNITS[unit]


sizes = st.integers(0, 2**50)


@st.composite
def ranges(draw):
    return Range(*sorted((draw(sizes), draw(sizes), draw(sizes))))


@given(ranges(), ranges(), ranges())
def test_sums_of_ranges_are_order_free_and_ordered(one, two, three):
    assert (one + two) + three == one + (two + three)
    assert one + two == two + one
    assert (one + two).ceiling >= one.ceiling


@given(ranges(), ranges())
def test_the_larger_of_two_needs_contains_both(one, two):
    both = one.largest(two)
    assert both == two.largest(one)
    assert all(getattr(both, f) >= getattr(one, f) for f in ("floor", "expected", "ceiling"))


@pytest.mark.parametrize("figures", [(-1, 0, 0), (2, 1, 3), (1, 3, 2)])
def test_a_range_out_of_order_is_refused(figures):
    with pytest.raises(ValueError, match="floor <= expected <= ceiling"):
        Range(*figures)
