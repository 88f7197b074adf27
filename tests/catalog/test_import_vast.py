"""Vast.ai's search: the API's numbers and the command line's, prices of the offer, storage apart, stock a wish."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from import_files import OFFER, Imported, as_json, imported

from capienza.units import MIB, Money


def vast(folder: Path, *changes: dict[str, Any], as_list: bool = False, **options: Any) -> Imported:
    rows = [{**OFFER, "id": number, **change} for number, change in enumerate(changes or ({},), start=1)]
    return imported(folder, as_json(rows if as_list else {"offers": rows}), "json", **options)


def test_one_row_is_an_offer_and_an_interruptible_one(tmp_path: Path) -> None:
    found = vast(tmp_path)
    fixed, bid = found.offers
    assert (fixed.id, bid.id) == ("vast/1", "vast/1/interruptible")
    assert fixed.price.money == Money(Decimal("0.8"), "USD")
    assert bid.price.money == Money(Decimal("0.44"), "USD")
    assert (fixed.price.kind, fixed.price.interruptible, bid.price.interruptible) == ("per_offer_hour", False, True)
    assert fixed.gpu.memory_reported_bytes == 24564 * MIB
    assert (fixed.gpu.compute_capability, fixed.host.cuda_max) == ("8.9", "12.8")
    assert fixed.host.ram_bytes == 64 * 10**9
    assert (fixed.region, fixed.country, fixed.stock) == ("Sweden, SE", "SE", "available")
    assert fixed.price.ends_at is not None
    assert fixed.notes == "reliability2: 0.9981; verification: verified"
    assert "dlperf" in found.where("columns-not-read")


def test_storage_is_a_fee_of_its_own_and_a_zero_is_a_price(tmp_path: Path) -> None:
    found = vast(tmp_path)
    storage, egress = found.offers[0].fees
    assert (storage.kind, storage.unit, storage.month_hours, storage.billed_when_stopped) == (
        "storage", "per_gb_month", 720, True,
    )  # fmt: skip
    assert (egress.kind, egress.unit, egress.money) == ("egress", "per_gb", Money(Decimal("0.002"), "USD"))
    assert "inet_down_cost" in found.where("vast-free")
    total_only = vast(tmp_path, {"dph_base": None})
    assert total_only.offers[0].price.money == Money(Decimal("0.8012"), "USD")
    assert total_only.offers[0].fees[0].month_hours is None
    assert "vast-storage-within" in total_only.codes


def test_the_command_line_divides_by_a_thousand(tmp_path: Path) -> None:
    cli = {"gpu_ram": 24.564, "gpu_total_ram": 49.128, "cpu_ram": 256.0}
    found = vast(tmp_path, cli, as_list=True)
    api = vast(tmp_path)
    assert found.offers[0].gpu == api.offers[0].gpu
    assert found.offers[0].host.ram_bytes == api.offers[0].host.ram_bytes
    assert "vast-cli" in found.codes
    assert "vast-api" in api.codes


def test_a_total_that_contradicts_the_figure_of_one_gpu_is_not_believed(tmp_path: Path) -> None:
    found = vast(tmp_path, {"gpu_ram": 49128})
    assert found.offers[0].gpu.memory_reported_bytes is None
    assert found.codes["memory-contradicts"] == 1


def test_a_modified_card_is_found(tmp_path: Path) -> None:
    found = vast(tmp_path, {"num_gpus": 1, "gpu_ram": 49140, "gpu_total_ram": 49140})
    assert found.offers[0].gpu.candidates == ("rtx4090_48mod",)
    assert "aftermarket" in found.codes


@pytest.mark.parametrize("bid", [0, 0.0, None])
def test_a_bid_of_nothing_is_no_offer(tmp_path: Path, bid: float | None) -> None:
    found = vast(tmp_path, {"min_bid": bid})
    assert len(found.offers) == 1
    assert ("price-unknown" in found.codes) == (bid is not None)


def test_a_price_that_is_a_bid_is_interruptible(tmp_path: Path) -> None:
    (offer,) = vast(tmp_path, {"is_bid": True}).offers
    assert offer.price.interruptible


def test_stock_is_what_is_free_now(tmp_path: Path) -> None:
    rows = ({}, {"rented": True}, {"rentable": False}, {"rentable": None, "rented": None})
    found = vast(tmp_path, *rows)
    assert [offer.stock for offer in found.offers if not offer.price.interruptible] == [
        "available",
        "none",
        "none",
        None,
    ]
    assert found.codes["stock-is-a-wish"] == 1


def test_rows_that_are_no_offers_are_left_out_by_place(tmp_path: Path) -> None:
    rows = ({}, {"num_gpus": 0}, {"num_gpus": 1.5}, {"dph_base": -1}, {"dph_base": "NaN"}, {"gpu_name": None})
    found = vast(tmp_path, *rows)
    assert len(found.offers) == 2
    assert sum(count for code, count in found.codes.items() if "left-out" in code) == 5
    assert ": 3.dph_base: left out: dph_base is -1" in found.where("left-out.import.negative")


def test_odd_values_that_an_offer_can_do_without(tmp_path: Path) -> None:
    found = vast(tmp_path, {"end_date": 10**18, "cpu_cores_effective": "x", "cpu_arch": "mips", "disk_space": True})
    assert found.offers[0].price.ends_at is None
    assert found.codes["value-not-read"] >= 3


def test_a_number_that_overflows_is_refused_by_name(tmp_path: Path) -> None:
    text = as_json({"offers": [OFFER, OFFER]}).replace("0.8,", "1e999,", 1)
    found = imported(tmp_path, text, "json")
    assert len(found.offers) == 2
    assert found.codes["left-out.import.not-a-number"] == 1
