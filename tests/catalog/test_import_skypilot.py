"""SkyPilot's catalogue: one column, three meanings, and names that merge variants."""

from __future__ import annotations

from pathlib import Path

import pytest
from import_files import imported, skypilot

from capienza.errors import InputErrors
from capienza.units import MIB

VAST = {"InstanceType": "2x-H200-32-65536", "AcceleratorName": "H200", "AcceleratorCount": 2, "mib": 287542}
LAMBDA = {"InstanceType": "gpu_8x_a6000", "AcceleratorName": "A6000", "AcceleratorCount": "8.0", "mib": 49152}
RUNPOD = {"InstanceType": "2x_A100-80GB_SECURE", "AcceleratorName": "A100-80GB", "AcceleratorCount": "2.0", "mib": 80}


def test_the_size_is_the_total_on_vast_nominal_on_lambda_and_gigabytes_on_runpod(tmp_path: Path) -> None:
    (vast,) = imported(tmp_path, skypilot(VAST), "csv").offers
    assert (vast.gpu.memory_reported_bytes, vast.gpu.memory_source) == (143771 * MIB, "driver")
    (lambda_,) = imported(tmp_path, skypilot(LAMBDA), "csv").offers
    assert (lambda_.gpu.memory_nominal, lambda_.gpu.memory_reported_bytes) == ("48 GB", None)
    (runpod,) = imported(tmp_path, skypilot({**RUNPOD, "name": "A100 PCIe"}), "csv").offers
    assert (runpod.gpu.memory_nominal, runpod.gpu.memory_reported_bytes) == ("80 GB", None)
    assert runpod.gpu.candidates == ("a100_pcie_80",)


@pytest.mark.parametrize(
    "kind, merged, mib, candidates",
    [
        ("1x-A100_SXM4-32-65536", "A100", 40960, ("a100_sxm_40",)),
        ("1x-A100_PCIE-32-65536", "A100", 81920, ("a100_pcie_80",)),
        ("1x-H100_NVL-32-65536", "H100", 95830, ("h100_nvl",)),
        ("1x-H100_SXM-32-65536", "H100", 81559, ("h100_sxm",)),
        ("1x-RTX_4060_Ti-32-65536", "RTX4060", 16380, ("rtx4060ti_16",)),
        ("1x-RTX_3060_Ti-32-65536", "RTX3060", 8192, ("rtx3060ti",)),
        ("1x-RTX_4070S_Ti-32-65536", "RTX4070", 16376, ("rtx4070tis",)),
        ("1x-RTX_4090-32-65536", "RTX4090", 24564, ("rtx4090",)),
    ],
)
def test_merged_variants_are_told_apart_by_the_type_and_the_memory(
    tmp_path: Path, kind: str, merged: str, mib: int, candidates: tuple[str, ...]
) -> None:
    row = {"InstanceType": kind, "AcceleratorName": merged, "mib": mib}
    found = imported(tmp_path, skypilot(row), "csv")
    assert found.offers[0].gpu.candidates == candidates
    assert ("skypilot-merged" in found.codes) == (kind.split("-")[1].replace("_", "") != merged)


@pytest.mark.parametrize(
    "merged, candidates",
    [
        ("A100", ("a100_pcie_40", "a100_sxm_40", "a100_pcie_80", "a100_sxm_80")),
        ("H100", ("h100_pcie", "h100_sxm", "h100_nvl")),
        ("RTX4090", ("rtx4090", "rtx4090_48mod")),
    ],
)
def test_a_merged_name_without_a_memory_keeps_every_candidate(
    tmp_path: Path, merged: str, candidates: tuple[str, ...]
) -> None:
    row = {"InstanceType": "some.type", "AcceleratorName": merged, "mib": 40960}
    found = imported(tmp_path, skypilot(row), "csv", provider="elsewhere")
    assert found.offers[0].gpu.candidates == candidates
    assert "elsewhere" in found.where("skypilot-size-not-read")


def test_a_modified_card_under_a_usual_name_is_found_by_its_memory(tmp_path: Path) -> None:
    one = {"InstanceType": "1x-RTX_4090-32-65536", "AcceleratorName": "RTX4090", "Price": "0.40", "Region": "a, DE, EU"}
    two = {"InstanceType": "2x-RTX_4090-32-65536", "AcceleratorName": "RTX4090", "AcceleratorCount": 2, "mib": 49128}
    found = imported(
        tmp_path, skypilot({**one, "mib": 24564}, {**one, "mib": 49140, "Region": "b, HK, AS"}, two), "csv"
    )
    assert [offer.gpu.candidates for offer in found.offers] == [("rtx4090",), ("rtx4090_48mod",), ("rtx4090",)]
    assert found.codes["aftermarket"] == 1
    assert found.where("aftermarket").startswith("3:")


@pytest.mark.parametrize("spot", ["0.00", ""])
def test_a_spot_price_of_zero_or_nothing_is_unknown_and_makes_no_offer(tmp_path: Path, spot: str) -> None:
    found = imported(tmp_path, skypilot({**VAST, "SpotPrice": spot}), "csv")
    assert len(found.offers) == 1
    assert ("price-unknown" in found.codes) == (spot == "0.00")


def test_a_spot_price_that_equals_the_price_is_no_evidence_on_runpod(tmp_path: Path) -> None:
    equal = imported(tmp_path, skypilot({**RUNPOD, "Price": "1.39", "SpotPrice": "1.390"}), "csv")
    assert [offer.price.interruptible for offer in equal.offers] == [False]
    assert equal.codes["skypilot-spot-equal"] == 1
    lower = imported(tmp_path, skypilot({**RUNPOD, "Price": "1.39", "SpotPrice": "0.89"}), "csv")
    assert [offer.price.interruptible for offer in lower.offers] == [False, True]


def test_server_figures_of_vast_are_the_filters_and_are_not_taken(tmp_path: Path) -> None:
    found = imported(tmp_path, skypilot({**VAST, "vCPUs": 32, "MemoryGiB": 64}), "csv")
    assert found.offers[0].host.ram_bytes is None
    assert found.codes["skypilot-filter"] == 1
    other = imported(tmp_path, skypilot({**LAMBDA, "vCPUs": 56, "MemoryGiB": 400}), "csv")
    assert other.offers[0].host.ram_bytes == 400 * 1024**3
    assert other.codes["not-stock"] == 1
    assert other.offers[0].stock is None


def test_region_and_country(tmp_path: Path) -> None:
    rows = [
        {**VAST, "Region": region} for region in ("Texas, US, NA", ", US, NA", "Hafnarfjarðarkaupstaður, IS, EU", "x")
    ]
    found = imported(tmp_path, skypilot(*rows), "csv")
    assert [(offer.region, offer.country) for offer in found.offers] == [
        ("Texas, US, NA", "US"),
        ("US, NA", "US"),
        ("Hafnarfjarðarkaupstaður, IS, EU", "IS"),
        ("x", None),
    ]
    (zone,) = imported(tmp_path, skypilot({**RUNPOD, "Region": "IN", "AvailabilityZone": "AP-IN-1"}), "csv").offers
    assert (zone.region, zone.country) == ("AP-IN-1", "IN")


def test_a_seller_that_cannot_be_told_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(InputErrors) as caught:
        imported(tmp_path, skypilot({"InstanceType": "p5.48xlarge", "mib": 81559}), "csv")
    assert "--provider" in str(caught.value.as_dict())
    assert not (tmp_path / "out.jsonl").exists()


def test_a_row_of_another_seller_is_left_out(tmp_path: Path) -> None:
    found = imported(tmp_path, skypilot(VAST, LAMBDA), "csv")
    assert len(found.offers) == 1
    assert found.codes["left-out.import.skypilot-other-seller"] == 1
    asked = imported(tmp_path, skypilot(VAST, LAMBDA), "csv", provider="lambda")
    assert [offer.id for offer in asked.offers] == ["skypilot/lambda/gpu_8x_a6000"]


def test_what_contradicts_itself_is_left_out_or_not_believed(tmp_path: Path) -> None:
    twice = skypilot(VAST).replace("'Count': 2", "'Count': 4")
    with pytest.raises(InputErrors, match="nothing tells which is right"):
        imported(tmp_path, twice, "csv")
    uneven = imported(tmp_path, skypilot({**VAST, "mib": 287543}), "csv")
    assert uneven.offers[0].gpu.memory_reported_bytes is None
    assert uneven.codes["skypilot-uneven"] == 1
    gigabytes = imported(tmp_path, skypilot({**VAST, "mib": 282}), "csv")
    assert gigabytes.offers[0].gpu.memory_reported_bytes is None
    assert gigabytes.codes["memory-implausible"] == 1
    mebibytes = imported(tmp_path, skypilot({**RUNPOD, "mib": 81920}), "csv")
    assert mebibytes.offers[0].gpu.memory_nominal is None
    assert mebibytes.codes["memory-implausible"] == 1


def test_a_row_without_a_gpu_is_left_out(tmp_path: Path) -> None:
    cpu = {"InstanceType": "cpu_4x_general", "AcceleratorName": "", "AcceleratorCount": ""}
    found = imported(tmp_path, skypilot(cpu, LAMBDA), "csv")
    assert len(found.offers) == 1
    assert found.codes["left-out.import.no-gpu"] == 1
