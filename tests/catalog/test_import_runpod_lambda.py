"""RunPod's gpuTypes and Lambda's instance types: rates by GPU, and cents of the instance."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from import_files import GPU_TYPE, INSTANCE, Imported, as_json, imported

from capienza.errors import InputErrors
from capienza.units import Money


def runpod(folder: Path, *changes: dict[str, Any]) -> Imported:
    rows = [{**GPU_TYPE, **change} for change in changes or ({},)]
    return imported(folder, as_json({"data": {"gpuTypes": rows}}), "json")


def lambda_(folder: Path, **changes: Any) -> Imported:
    kind = {**INSTANCE["instance_type"], **changes.pop("kind", {})}
    row = {**INSTANCE, "instance_type": kind, **changes}
    return imported(folder, as_json({"data": {"gpu_8x_a100": row}}), "json")


def test_runpod_prices_are_by_gpu_and_hour(tmp_path: Path) -> None:
    found = runpod(tmp_path)
    by_id = {offer.id: offer for offer in found.offers}
    secure = by_id["runpod/NVIDIA-GeForce-RTX-4090/secure/2x"]
    assert (secure.price.kind, secure.price.money, secure.gpus) == ("per_gpu_hour", Money(Decimal("0.69"), "USD"), 2)
    assert (secure.gpu.memory_nominal, secure.gpu.memory_reported_bytes) == ("24 GB", None)
    assert {offer.gpus for offer in found.offers} == {1, 2, 4, 6}
    assert "runpod-counts" in found.codes


def test_runpod_terms_are_rates_and_not_totals(tmp_path: Path) -> None:
    found = runpod(tmp_path)
    week = next(offer for offer in found.offers if "/week/" in offer.id)
    month = next(offer for offer in found.offers if "/month/" in offer.id)
    assert (week.price.kind, week.price.min_hours, week.price.money) == (
        "per_gpu_hour", 168, Money(Decimal("0.59"), "USD"),
    )  # fmt: skip
    assert month.price.min_hours == 720
    assert week.price.unused_refunded is False
    assert not any("6-months" in offer.id or "3-months" in offer.id for offer in found.offers)
    assert "runpod-rate" in found.codes
    assert "sixMonthPrice" in found.where("price-unknown")
    total = runpod(tmp_path, {"oneWeekPrice": 99.12})
    assert not any("/week/" in offer.id for offer in total.offers)
    assert "oneWeekPrice" in total.where("runpod-not-a-rate")


def test_runpod_bids_are_interruptible_and_stock_is_a_wish(tmp_path: Path) -> None:
    found = runpod(tmp_path)
    assert {offer.price.interruptible for offer in found.offers if "/bid/" in offer.id} == {True}
    assert {offer.stock for offer in found.offers if offer.gpus == 1} == {"limited"}
    assert {offer.stock for offer in found.offers if offer.gpus > 1} == {None}
    assert found.codes["stock-is-a-wish"] == 1


def test_a_bid_of_zero_and_a_stock_that_is_no_known_word_are_said(tmp_path: Path) -> None:
    found = runpod(tmp_path, {"lowestPrice": {"minimumBidPrice": 0, "stockStatus": "Plenty"}})
    assert not [offer for offer in found.offers if offer.price.interruptible or offer.stock]
    assert "minimumBidPrice is 0" in str([str(said.message) for said in found.findings.kept])
    assert "stockStatus is Plenty" in found.where("value-not-read")


def test_a_gpu_type_without_a_price_is_left_out(tmp_path: Path) -> None:
    nothing = {key: None for key in GPU_TYPE if key.endswith("Price")}
    found = runpod(tmp_path, {}, nothing)
    assert found.codes["left-out.import.runpod-unpriced"] == 1


def test_lambda_prices_are_cents_of_the_instance(tmp_path: Path) -> None:
    found = lambda_(tmp_path)
    assert [(offer.id, offer.region, offer.stock) for offer in found.offers] == [
        ("lambda/gpu_8x_a100/us-east-1", "us-east-1", "available"),
        ("lambda/gpu_8x_a100/us-west-2", "us-west-2", "available"),
    ]
    offer = found.offers[0]
    assert (offer.price.kind, offer.price.money) == ("per_offer_hour", Money(Decimal("10.32"), "USD"))
    assert (offer.gpus, offer.gpus_per_node) == (8, 8)
    assert offer.gpu.candidates == ("a100_sxm_40",)
    assert offer.host.disk_bytes == 6144 * 1024**3
    assert {"lambda-cents", "lambda-memory", "stock-is-a-wish"} <= set(found.codes)


@pytest.mark.parametrize(
    "words, candidates, memory",
    [
        ("1x RTX A6000 (48 GB)", ("rtx_a6000",), "48 GB"),
        ("1x H100 (80 GB PCIe)", ("h100_pcie",), "80 GB"),
        ("1x GH200 (96 GB)", ("gh200_96",), "96 GB"),
        ("1x Mystery", (), None),
    ],
)
def test_lambda_memory_is_read_from_words(
    tmp_path: Path, words: str, candidates: tuple[str, ...], memory: str | None
) -> None:
    kind = {"description": words, "gpu_description": None, "specs": {"gpus": 1}}
    found = lambda_(tmp_path, kind=kind)
    assert (found.offers[0].gpu.candidates, found.offers[0].gpu.memory_nominal) == (candidates, memory)
    assert ("lambda-words" in found.codes) == (memory is None)


def test_lambda_without_capacity_is_an_offer_without_stock(tmp_path: Path) -> None:
    (offer,) = lambda_(tmp_path, regions_with_capacity_available=[]).offers
    assert (offer.region, offer.stock) == (None, "none")


def test_lambda_makes_an_offer_of_every_region(tmp_path: Path) -> None:
    regions = [{"name": f"r{number}"} for number in range(300)]
    assert len(lambda_(tmp_path, regions_with_capacity_available=regions).offers) == 300


def test_lambda_that_contradicts_itself_or_has_no_gpu_is_left_out(tmp_path: Path) -> None:
    for specs, text in (({"gpus": 4}, "nothing tells"), ({"gpus": 0}, "no GPU"), ({"gpus": -1}, "below zero")):
        with pytest.raises(InputErrors, match=text):
            lambda_(tmp_path, kind={"specs": specs, "description": "8x A100 (40 GB SXM4)"})
