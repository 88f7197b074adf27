"""What the words of one offer mean, and which of them contradict each other."""

from __future__ import annotations

import datetime
import zoneinfo
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from offer_files import flat, read_path, read_text

from capienza.catalog.offer import Document
from capienza.catalog.write import write_jsonl
from capienza.errors import Place
from capienza.units import GIB, MIB, Money

UTC = datetime.UTC


def test_the_flat_form_of_the_design_page(tmp_path: Path) -> None:
    text = (
        "- {id: rtx6000ada-1x3d, provider: example, gpu: RTX 6000 Ada, memory: 48 GB, lots: 1, cards: 1, days: 3, "
        "total: 55.71 USD, document: {id: rtx-6000-ada-sheet, version: 2026-11, retrieved: 2026-11-29}}\n"
    )
    offer = read_text(tmp_path, "yaml", text).offers[0]
    assert (offer.id, offer.provider, offer.gpus, offer.lots, offer.cards) == ("rtx6000ada-1x3d", "example", 1, 1, 1)
    assert offer.gpu.candidates == ("rtx6000_ada",)
    assert offer.gpu.memory_nominal == "48 GB"
    assert offer.gpu.memory_reported_bytes is None
    assert offer.price.kind == "total"
    assert offer.price.money == Money(Decimal("55.71"), "USD")
    assert offer.price.term_hours == 72
    assert offer.document == Document(
        id="rtx-6000-ada-sheet",
        version="2026-11",
        retrieved=datetime.datetime(2026, 11, 29, tzinfo=UTC),
        retrieved_text="2026-11-29",
    )
    assert offer.place == Place(str(tmp_path / "offers.yaml"), 1, 3)


def test_lots_times_cards_and_all_days(tmp_path: Path) -> None:
    offer = read_text(tmp_path, "yaml", flat(lots="2", cards="8", nodes="2", days="14")).offers[0]
    assert (offer.gpus, offer.nodes, offer.gpus_per_node) == (16, 2, 8)
    assert offer.price.term_hours == 336
    assert read_text(tmp_path, "yaml", flat(cards="4", gpus_per_node="2")).offers[0].nodes == 2


def test_nothing_is_assumed_about_the_nodes(tmp_path: Path) -> None:
    offer = read_text(tmp_path, "yaml", flat(lots="2", cards="4")).offers[0]
    assert (offer.nodes, offer.gpus_per_node) == (None, None)


@pytest.mark.parametrize("per, kind", [("gpu", "per_gpu_hour"), ("node", "per_node_hour"), ("offer", "per_offer_hour")])
def test_hourly_prices(tmp_path: Path, per: str, kind: str) -> None:
    text = flat(hourly="0.40 USD", per=per, total="", days="", cards="2")
    price = read_text(tmp_path, "yaml", text).offers[0].price
    assert (price.kind, price.money, price.term_hours) == (kind, Money(Decimal("0.40"), "USD"), None)


def test_what_an_hourly_price_pays_for_is_asked_when_it_matters(tmp_path: Path) -> None:
    one = read_text(tmp_path, "yaml", flat(hourly="0.40 USD", total="", days=""))
    assert one.offers[0].price.kind == "per_offer_hour"
    assert read_text(tmp_path, "yaml", flat(hourly="0.40 USD", total="", days="", cards="2")).codes == ["per-missing"]


@pytest.mark.parametrize(
    "changes, code",
    [
        ({"total": "'1,000.00 USD'"}, "not-money"),
        ({"total": "-5 USD"}, "not-money"),
        ({"total": "5"}, "not-money"),
        ({"total": "5.00"}, "not-money"),
        ({"total": "5 usd"}, "not-money"),
        ({"total": "5 EURO"}, "not-money"),
        ({"hourly": "1 USD"}, "two-prices"),
        ({"days": ""}, "term-missing"),
        ({"days": "0"}, "not-positive"),
        ({"days": "-1"}, "not-positive"),
        ({"cards": "0"}, "not-count"),
        ({"cards": "1.5"}, "not-count"),
        ({"lots": "0"}, "not-count"),
        ({"lots": "2000", "cards": "2000"}, "too-many-gpus"),
        ({"per": "gpu"}, "per-without-hourly"),
        ({"nodes": "2"}, "nodes-uneven"),
        ({"lots": "2", "cards": "4", "nodes": "2", "gpus_per_node": "2"}, "nodes-contradict-gpus"),
        ({"memory": "24"}, "memory-without-unit"),
        ({"reported": "24.5 GB"}, "not-mebibytes"),
        ({"reported": "0 MiB"}, "not-mebibytes"),
        ({"reported": "24564"}, "not-size"),
        ({"usable_hours": "73"}, "usable-above-paid"),
        ({"min_hours": "5", "max_hours": "4"}, "minimum-above-maximum"),
        ({"starts": "2026-12-01", "ends": "2026-12-05"}, "term-differs"),
        ({"starts": "2026-12-05", "ends": "2026-12-01"}, "window-empty"),
        ({"starts": "2026-12-05T10:00:00"}, "not-a-day"),
        ({"starts": "tomorrow"}, "not-a-day"),
        ({"starts": "2026-02-30"}, "not-a-day"),
        ({"mig_profile": "3g.40gb", "share": "whole"}, "profile-without-mig"),
        ({"gpu": "A100 3g.40gb", "mig_profile": "3g.20gb"}, "profiles-differ"),
        ({"tax_percent": "101"}, "not-percent-number"),
        ({"interruptible": "yes"}, "not-true-or-false"),
        ({"country": "italy"}, "not-country"),
        ({"gpu_link": "nvlin"}, "not-word-near"),
        ({"stock": "maybe"}, "not-word"),
        ({"fees": "[{kind: setup, amount: 22, unit: once}]"}, "not-money"),
        ({"fees": "[{kind: setup, amount: all, unit: percent}]"}, "not-percent"),
        ({"fees": "[{kind: setup, amount: '5', unit: once}]"}, "not-money"),
        ({"fees": "[{kind: setup, amount: 1000000000000.01 USD, unit: once}]"}, "amount-too-large"),
        ({"total": "1000000000000.01 USD"}, "amount-too-large"),
        ({"total": "1234567890123456789012345678.123456 USD"}, "amount-too-large"),
        ({"total": "", "days": "", "hourly": "99999999999999999999999999999 USD"}, "amount-too-large"),
        ({"fees": "setup"}, "not-list"),
        ({"document": "sheet"}, "not-mapping"),
        ({"document": "{version: 1}"}, "missing-key"),
        ({"host": "{ram: 64}"}, "not-size"),
        ({"days": "", "dys": "3"}, "unknown-key-near"),
        ({"id": ""}, "missing-key"),
        ({"id": "7"}, "not-one-line"),
    ],
)
def test_refused(tmp_path: Path, changes: dict[str, str], code: str) -> None:
    outcome = read_text(tmp_path, "yaml", flat(**changes))
    assert outcome.codes == [code]
    assert not outcome.offers
    assert outcome.problems[0].place.line == 1
    assert outcome.problems[0].place.column


def test_an_end_before_its_start_in_the_document(tmp_path: Path) -> None:
    document = "{id: x, valid_from: 2026-12-02T00:00:00Z, valid_until: 2026-12-01T00:00:00Z}"
    assert read_text(tmp_path, "yaml", flat(document=document)).codes == ["window-empty"]


@pytest.mark.parametrize("changes", [{"total": "0.00 USD"}, {"total": "", "days": "", "hourly": "0 USD"}])
def test_a_zero_price_is_not_known_and_not_free(tmp_path: Path, changes: dict[str, str]) -> None:
    outcome = read_text(tmp_path, "yaml", flat(**changes))
    assert outcome.offers[0].price.money is None
    assert outcome.found == [("a", "zero-price")]


def test_a_server_with_nothing_is_not_one_that_says_nothing(tmp_path: Path) -> None:
    offer = read_text(tmp_path, "yaml", flat(host="{ram: 0 GiB, disk: 0 GB}")).offers[0]
    assert (offer.host.ram_bytes, offer.host.disk_bytes) == (0, 0)
    write_jsonl([offer], tmp_path / "again.jsonl")
    assert read_path(tmp_path / "again.jsonl").offers[0].host == offer.host


def test_a_missing_price_is_kept_missing(tmp_path: Path) -> None:
    outcome = read_text(tmp_path, "yaml", flat(total=""))
    assert outcome.offers[0].price.money is None
    assert outcome.offers[0].price.kind == "total"
    assert outcome.found == [("a", "price-not-stated")]


def test_a_fee_of_zero_is_a_value(tmp_path: Path) -> None:
    fees = "[{kind: ip, amount: 0 EUR, unit: once}, {kind: support, amount: 7.5%, unit: percent}, "
    fees += "{kind: other, amount: 22, unit: percent}]"
    offer = read_text(tmp_path, "yaml", flat(fees=fees)).offers[0]
    assert [fee.money for fee in offer.fees] == [
        Money(Decimal(0), "EUR"),
        Money(Decimal("7.5"), "USD"),
        Money(Decimal(22), "USD"),
    ]


@pytest.mark.parametrize(
    "changes, findings",
    [
        ({"gpu": "H100"}, ["ambiguous-gpu"]),
        ({"gpu": "HX100"}, ["unknown-gpu-near"]),
        ({"gpu": "L4", "memory": "80 GB"}, ["memory-contradicts-gpu"]),
        ({"gpu": "L4", "memory": "plenty"}, ["memory-not-read"]),
        ({"gpu": "L4", "form_factor": "sxm"}, []),
        ({"gpu": "H100 SXM", "form_factor": "pcie"}, ["form-contradicts-gpu"]),
        ({"gpu": "A40", "share": "mig"}, ["profile-missing"]),
        ({"gpu": "L4", "mig_profile": "1g.10gb"}, ["mig-contradicts-gpu"]),
        ({"document": "{id: x, retrieved: last week}"}, ["date-not-read"]),
        ({"document": "{id: x, retrieved: 2026-11}"}, []),
        ({"starts": "2026-12-01"}, ["day-in-utc"]),
        ({"starts": "2026-12-01T00:00:00Z"}, []),
    ],
)
def test_reported_and_kept(tmp_path: Path, changes: dict[str, str], findings: list[str]) -> None:
    outcome = read_text(tmp_path, "yaml", flat(**changes))
    assert [code for _, code in outcome.found] == findings
    assert len(outcome.offers) == 1


def test_an_unknown_name_has_no_candidates(tmp_path: Path) -> None:
    assert read_text(tmp_path, "yaml", flat(gpu="HX100")).offers[0].gpu.candidates == ()


def test_the_drivers_total_settles_the_name(tmp_path: Path) -> None:
    text = flat(id="b", gpu="RTX_4090", reported="49140 MiB") + flat(id="c", gpu="RTX_4090", reported="24564 MiB")
    big, small = read_text(tmp_path, "yaml", text).offers
    assert (big.gpu.candidates, small.gpu.candidates) == (("rtx4090_48mod",), ("rtx4090",))
    assert (big.gpu.memory_source, big.gpu.memory_reported_bytes) == ("driver", 49140 * MIB)
    odd = read_text(tmp_path, "yaml", flat(gpu="RTX_4090", reported="81559 MiB"))
    assert [code for _, code in odd.found] == ["memory-contradicts-gpu", "ambiguous-gpu"]


def test_sizes_of_the_host(tmp_path: Path) -> None:
    host = (
        read_text(tmp_path, "yaml", flat(host="{ram: 64 GB, disk: 200 GiB, vcpus: 16, cuda_max: 12.8}")).offers[0].host
    )
    assert (host.ram_bytes, host.disk_bytes) == (64 * 10**9, 200 * GIB)
    assert (host.vcpus, host.cuda_max) == (Decimal(16), "12.8")


def test_a_bare_date_is_a_whole_day_of_the_zone(tmp_path: Path) -> None:
    rome = zoneinfo.ZoneInfo("Europe/Rome")
    text = flat(document="{id: x, valid_until: 2026-12-07}", starts="2026-12-09", ends="2026-12-11")
    outcome = read_text(tmp_path, "yaml", text, zone=rome)
    offer = outcome.offers[0]
    assert not outcome.found
    assert offer.document is not None
    assert offer.document.valid_until == datetime.datetime(2026, 12, 7, 23, tzinfo=UTC)
    assert offer.price.starts_at == datetime.datetime(2026, 12, 8, 23, tzinfo=UTC)
    assert offer.price.ends_at == datetime.datetime(2026, 12, 11, 23, tzinfo=UTC)


def test_days_over_a_clock_change_agree_with_their_dates(tmp_path: Path) -> None:
    rome = zoneinfo.ZoneInfo("Europe/Rome")
    outcome = read_text(tmp_path, "yaml", flat(days="3", starts="2026-10-24", ends="2026-10-26"), zone=rome)
    assert not outcome.problems


def test_dates_alone_give_the_term(tmp_path: Path) -> None:
    text = flat(days="", starts="2026-12-01T12:00:00Z", ends="2026-12-02T11:30:00+01:00")
    assert read_text(tmp_path, "yaml", text).offers[0].price.term_hours == Decimal("22.5")


@pytest.mark.parametrize("per", ["gpu", "node", "offer"])
@pytest.mark.parametrize(
    "dates",
    [
        {},
        {"starts": "2026-12-01T00:00:00Z"},
        {"ends": "2026-12-20T00:00:00Z"},
        {"starts": "2026-12-01T00:00:00Z", "ends": "2026-12-20T00:00:00Z"},
        {"starts": "2026-12-01", "ends": "2026-12-20"},
    ],
)
def test_the_dates_of_an_hourly_price_are_no_paid_time(tmp_path: Path, per: str, dates: dict[str, str]) -> None:
    hourly = {"hourly": "3 USD", "per": per, "total": "", "days": ""}
    outcome = read_text(tmp_path, "yaml", flat(**hourly, **dates))
    assert outcome.offers[0].price.term_hours is None
    assert (outcome.offers[0].price.starts_at is None) is ("starts" not in dates)
    term = read_text(tmp_path, "yaml", flat(**hourly | {"days": "2"}, **dates))
    assert (term.offers[0].price.term_hours, term.problems) == (48, [])


def test_a_term_by_the_hour_has_to_find_room_between_its_dates(tmp_path: Path) -> None:
    dates = {"starts": "2026-12-01T00:00:00Z", "ends": "2026-12-03T00:00:00Z"}
    text = flat(hourly="3 USD", per="gpu", total="", days="3", **dates)
    assert read_text(tmp_path, "yaml", text).codes == ["term-differs"]


def test_equal_claims_are_one_object(tmp_path: Path) -> None:
    text = flat(id="b") + flat(id="c") + flat(id="d", gpu="A40")
    first, second, third = read_text(tmp_path, "yaml", text).offers
    assert first.gpu is second.gpu
    assert first.gpu is not third.gpu


@given(
    lots=st.integers(1, 50),
    cards=st.integers(1, 50),
    days=st.decimals("0.5", "90", places=1),
    cents=st.integers(1, 10**9),
)
def test_the_arithmetic_of_a_package(
    tmp_path_factory: pytest.TempPathFactory, lots: int, cards: int, days: Decimal, cents: int
) -> None:
    text = flat(lots=str(lots), cards=str(cards), days=str(days), total=f"{cents / 100:.2f} EUR")
    offer = read_text(tmp_path_factory.getbasetemp(), "yaml", text).offers[0]
    assert offer.gpus == lots * cards
    assert offer.price.term_hours == 24 * days
    assert offer.price.money == Money(Decimal(cents).scaleb(-2), "EUR")


def test_currencies_that_differ_within_a_file_are_said_once(tmp_path: Path) -> None:
    text = flat(id="a") + flat(id="b", total="40 EUR") + flat(id="c")
    found = read_text(tmp_path, "yaml", text)
    assert found.findings.counts["catalog.mixed-currencies"] == 1
    assert "EUR, USD" in str(found.findings.kept[-1].message)
    assert not read_text(tmp_path, "yaml", flat(id="a") + flat(id="c")).findings.counts["catalog.mixed-currencies"]


def test_windows_of_one_offer_that_overlap_are_two_offers_of_one_name(tmp_path: Path) -> None:
    first = flat(document="{id: q, valid_from: 2026-11-01, valid_until: 2026-11-20}")
    second = flat(total="50 USD", document="{id: q, valid_from: 2026-11-10, valid_until: 2026-11-30}")
    assert read_text(tmp_path, "yaml", first + second).codes == ["duplicate-offer"]


@pytest.mark.parametrize(
    "changes, code",
    [
        ({"nodes": "2", "gpus_per_node": "8", "cards": "8"}, "nodes-contradict-gpus"),
        ({"hourly": "1 USD"}, "two-prices"),
        ({"total": "-47.14 USD"}, "not-money"),
        ({"total": "NaN USD"}, "not-money"),
        ({"total": "1e999 USD"}, "not-money"),
        ({"days": "3", "starts": "2026-12-07", "ends": "2026-12-20"}, "term-differs"),
        ({"starts": "2026-12-07T11:30:00", "ends": "2026-12-10"}, "not-a-day"),
        ({"starts": "2026-12-10", "ends": "2026-12-07"}, "window-empty"),
    ],
)
def test_a_sheet_that_contradicts_itself_or_cannot_be(tmp_path: Path, changes: dict[str, str], code: str) -> None:
    outcome = read_text(tmp_path, "yaml", flat(**changes))
    assert code in outcome.codes
    assert not outcome.offers
