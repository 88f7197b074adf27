"""gpuhunt's catalogue: the price of the instance, a memory that is no driver's, and every trap said."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from import_files import gpuhunt, imported

from capienza.errors import InputErrors
from capienza.units import Money


def test_the_price_is_of_the_instance_and_not_of_one_gpu(tmp_path: Path) -> None:
    (offer,) = imported(
        tmp_path, gpuhunt({"gpu_name": "H100", "gpu_memory": 80, "gpu_count": 8, "price": 16}), "csv"
    ).offers
    assert offer.price.kind == "per_offer_hour"
    assert offer.price.money == Money(Decimal("16"), "USD")
    assert (offer.gpus, offer.gpus_per_node, offer.nodes) == (8, 8, 1)


def test_the_memory_is_the_sellers_text_and_no_drivers_figure(tmp_path: Path) -> None:
    found = imported(tmp_path, gpuhunt({"gpu_name": "H100", "gpu_memory": 80}), "csv")
    gpu = found.offers[0].gpu
    assert gpu.memory_nominal == "80 GB"
    assert gpu.memory_reported_bytes is None
    assert gpu.candidates == ("h100_pcie", "h100_sxm")
    assert "7 %" in found.where("gpuhunt-memory")


@pytest.mark.parametrize("price", ["0", "0.0", ""])
def test_a_price_of_zero_or_nothing_is_unknown(tmp_path: Path, price: str) -> None:
    found = imported(tmp_path, gpuhunt({"price": price}), "csv")
    assert found.offers[0].price.money is None
    assert found.codes["catalog.zero-price" if price else "catalog.price-not-stated"] == 1


def test_the_spot_flag_is_an_interruptible_price(tmp_path: Path) -> None:
    rows = ({"spot": "True"}, {"spot": "False"}, {"spot": ""}, {"spot": "maybe"})
    found = imported(tmp_path, gpuhunt(*rows), "csv")
    assert [offer.price.interruptible for offer in found.offers] == [True, False, None, None]
    assert found.codes["not-a-flag"] == 1
    assert found.offers[0].id.endswith("/spot")


def test_without_a_day_the_offers_are_undated_and_with_one_they_are_not(tmp_path: Path) -> None:
    undated = imported(tmp_path, gpuhunt({}), "csv", retrieved=None)
    assert undated.offers[0].document is not None
    assert undated.offers[0].document.retrieved is None
    assert undated.codes["offers.undated"] == 1
    dated = imported(tmp_path, gpuhunt({}), "csv", fresh_for="7 days")
    document = dated.offers[0].document
    assert document is not None
    assert document.retrieved is not None
    assert document.valid_until is not None
    assert (document.valid_until - document.retrieved).days == 7
    assert "offers.undated" not in dated.codes


def test_a_part_of_a_gpu_is_one_part_and_its_memory_is_open(tmp_path: Path) -> None:
    found = imported(tmp_path, gpuhunt({"gpu_name": "A10", "gpu_memory": 24, "gpu_count": "0.25"}), "csv")
    offer = found.offers[0]
    assert (offer.gpus, offer.gpu.share) == (1, "vgpu")
    assert "0.25" in found.where("gpuhunt-fraction")


def test_rows_that_make_no_offer_are_left_out_with_line_column_and_reason(tmp_path: Path) -> None:
    rows = (
        {},
        {"gpu_count": "0"},
        {"gpu_count": "1.5"},
        {"price": "-2"},
        {"price": "NaN"},
        {"price": "1e999"},
        {"price": "2,50"},
        {"price": "9" * 30},
        {"gpu_name": ""},
        {"gpu_vendor": "google", "gpu_name": "v5e"},
        {"gpu_vendor": "amd", "gpu_name": "L4"},
        {"instance_name": ""},
        {"instance_name": "x" * 300},
        {"gpu_count": "1e7"},
        {"location": "a\x1b[31m"},
    )
    found = imported(tmp_path, gpuhunt(*rows), "csv")
    assert len(found.offers) == 1
    left = {code.removeprefix("left-out."): count for code, count in found.codes.items() if "left-out" in code}
    assert sum(left.values()) == len(rows) - 1
    assert left == {
        "import.no-gpu": 1,
        "import.not-whole": 1,
        "import.negative": 1,
        "import.not-a-number": 3,
        "import.too-large": 2,
        "import.missing": 2,
        "import.gpuhunt-maker": 1,
        "import.gpuhunt-maker-contradicts": 1,
        "import.not-an-offer": 1,
        "import.hidden-character": 1,
    }
    assert found.where("left-out.import.negative").startswith("5:9: price: left out: price is -2")


def test_what_an_offer_can_do_without_is_said_and_not_taken(tmp_path: Path) -> None:
    found = imported(tmp_path, gpuhunt({"cpu": "many", "gpu_memory": "-1", "cpu_arch": "sparc", "flags": "x"}), "csv")
    offer = found.offers[0]
    assert (offer.host.vcpus, offer.gpu.memory_nominal, offer.host.cpu_arch) == (None, None, None)
    assert found.codes["value-not-read"] == 3
    assert found.codes["gpuhunt-flags"] == 1


def test_ram_and_disk_are_notes_because_their_unit_is_open(tmp_path: Path) -> None:
    found = imported(tmp_path, gpuhunt({"memory": 128, "disk_size": 100}), "csv")
    offer = found.offers[0]
    assert (offer.host.ram_bytes, offer.host.disk_bytes) == (None, None)
    assert offer.notes == "memory: 128; disk_size: 100"
    assert "GiB" in found.where("gpuhunt-server")


def test_a_known_error_of_the_source_is_a_contradiction(tmp_path: Path) -> None:
    found = imported(tmp_path, gpuhunt({"gpu_name": "MI325X", "gpu_memory": 288, "gpu_vendor": "amd"}), "csv")
    assert found.codes["catalog.memory-contradicts-gpu"] == 1


def test_equal_names_are_kept_apart(tmp_path: Path) -> None:
    rows = [{"instance_name": "same", "price": price} for price in ("1", "2", "3")]
    found = imported(tmp_path, gpuhunt(*rows), "csv", provider="aws")
    assert [offer.id for offer in found.offers] == [f"gpuhunt/aws/same/eu-1{end}" for end in ("", "#2", "#3")]
    assert found.codes["repeated-id"] == 2
    assert {offer.provider for offer in found.offers} == {"aws"}


def test_a_file_of_which_no_row_is_an_offer_is_an_error_that_says_why(tmp_path: Path) -> None:
    with pytest.raises(InputErrors) as caught:
        imported(tmp_path, gpuhunt({"gpu_count": "0"}, {"gpu_count": "0"}), "csv")
    assert "none of the 2 rows" in str(caught.value)
    assert not (tmp_path / "out.jsonl").exists()
    with pytest.raises(InputErrors, match="no row"):
        imported(tmp_path, gpuhunt(), "csv")


def test_each_row_keeps_its_file_and_line(tmp_path: Path) -> None:
    found = imported(tmp_path, gpuhunt({}, {}), "csv")
    assert [offer.document.source for offer in found.offers if offer.document] == ["list.csv:2", "list.csv:3"]
    assert len({offer.document.version for offer in found.offers if offer.document}) == 1
