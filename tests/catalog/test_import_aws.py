"""AWS Capacity Blocks: a total between two dates, hours that are paid and not usable, a table of types."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from import_files import BLOCK, Imported, as_json, imported

from capienza.catalog.devices import load_devices
from capienza.catalog.importers.aws_blocks import instance_types
from capienza.errors import InputErrors
from capienza.units import Money


def blocks(folder: Path, *changes: dict[str, Any]) -> Imported:
    rows = [{**BLOCK, "CapacityBlockOfferingId": f"cb-{n}", **change} for n, change in enumerate(changes or ({},))]
    return imported(folder, as_json({"CapacityBlockOfferings": rows}), "json")


def test_a_block_is_a_total_between_two_dates(tmp_path: Path) -> None:
    found = blocks(tmp_path)
    (offer,) = found.offers
    price = offer.price
    assert (price.kind, price.money) == ("total", Money(Decimal("1510.50"), "USD"))
    assert (price.term_hours, price.usable_hours) == (24, Decimal("23.5"))
    assert (price.cancellable, price.unused_refunded, price.interruptible) == (False, False, False)
    assert (offer.gpus, offer.gpus_per_node, offer.nodes, offer.gpu_link) == (16, 8, 2, "nvlink")
    assert offer.gpu.candidates == ("h100_sxm",)
    assert {"aws-table", "aws-ends-early", "aws-final"} <= set(found.codes)


def test_an_ultraserver_ends_an_hour_early(tmp_path: Path) -> None:
    (offer,) = blocks(tmp_path, {"InstanceType": "p6e-gb200.36xlarge", "InstanceCount": 9}).offers
    assert (offer.price.usable_hours, offer.gpus, offer.host.cpu_arch) == (23, 36, "aarch64")


def test_the_dates_count_where_the_hours_say_otherwise(tmp_path: Path) -> None:
    found = blocks(tmp_path, {"StartDate": "2026-12-07T14:00:00Z"})
    assert found.offers[0].price.term_hours == Decimal("21.5")
    assert found.codes["aws-hours-differ"] == 1
    without = blocks(tmp_path, {"StartDate": None, "EndDate": None})
    assert without.offers[0].price.term_hours == 24


@pytest.mark.parametrize(
    "change, text",
    [
        ({"InstanceType": "m7i.large"}, "not in the table"),
        ({"InstanceType": "trn2.48xlarge"}, "no GPU but another"),
        ({"CurrencyCode": None}, "no price"),
        ({"UpfrontFee": "-1"}, "below zero"),
        ({"UpfrontFee": "1,510.50"}, "not a number"),
        ({"StartDate": "2026-12-07T11:30:00"}, "offset"),
        ({"StartDate": "2026-12-09T11:30:00Z"}, "not after its start"),
        ({"StartDate": None, "EndDate": None, "CapacityBlockDurationHours": None}, "how long"),
        ({"CurrencyCode": "dollars"}, "cannot be an offer"),
    ],
)
def test_what_makes_no_offer_says_why(tmp_path: Path, change: dict[str, Any], text: str) -> None:
    with pytest.raises(InputErrors, match=text):
        blocks(tmp_path, change)
    found = blocks(tmp_path, {}, change)
    assert len(found.offers) == 1


def test_a_fee_of_zero_is_a_missing_price(tmp_path: Path) -> None:
    found = blocks(tmp_path, {"UpfrontFee": "0"})
    assert found.offers[0].price.money is None
    assert found.codes["catalog.zero-price"] == 1


def test_currencies_that_differ_within_a_file_are_said(tmp_path: Path) -> None:
    found = blocks(tmp_path, {}, {"CurrencyCode": "EUR"})
    assert found.codes["catalog.mixed-currencies"] == 1


def test_every_type_of_the_table_has_a_source_and_a_gpu_that_is_known() -> None:
    for name, row in instance_types().items():
        assert row["source"], name
        if row["gpu_key"]:
            assert row["gpu_key"] in load_devices()
            assert load_devices()[row["gpu_key"]].name == row["gpu_name"]
            assert int(row["gpus"]) in (1, 4, 8)
            assert row["cpu_arch"] in ("x86_64", "aarch64")
            assert int(row["ram_gib"]) > 0
            assert row["gpu_link"] == ("nvlink" if int(row["gpus"]) > 1 else "")
