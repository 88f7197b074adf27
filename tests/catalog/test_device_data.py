"""The shipped tables: rules that hold over every row, and equality with the collected sources."""

from __future__ import annotations

import csv
import json
import re
import runpy
from pathlib import Path

import pytest

from capienza.catalog.devices import DATA, Figure, cuda_total, largest, load_devices, mig_profiles, smallest, table
from capienza.catalog.write import offer_schema
from capienza.units import GIB, MIB

ROOT = Path(__file__).parents[2]
SHARED = ROOT / ".." / "shared" / "data"
DEVICES = load_devices()


def sources(name: str) -> list[dict[str, str]]:
    if not SHARED.is_dir():
        pytest.skip("the collected sources are not beside this checkout")
    with (SHARED / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def mib(amount_bytes: int | None) -> int | None:
    if amount_bytes is None:
        return None
    assert amount_bytes % MIB == 0
    return int(amount_bytes // MIB)


@pytest.mark.parametrize(
    "key, largest_mib, smallest_mib, cuda_mib",
    [
        # ECC off and on are both seen, or neither exists: the figures themselves
        ("a40", 49140, 46068, 45416),
        ("l40", 49140, 46068, None),
        ("rtx3090", 24576, 24576, 24259),
        ("rtx5090", 32607, 32607, 32117),
        ("h100_sxm", 81559, 81559, 81090),
        ("h200_sxm", 143771, 143771, 143156),
        ("mi300x", 196592, 196592, 196592),
        # seen with ECC on: off is at most ceil((on + 1) x 16 / 15), never above nominal
        ("l4", 24571, 23034, None),  # 23035 x 16 / 15 = 24570.67
        ("a10g", 24565, 23028, 22587),  # 23029 x 16 / 15 = 24564.27
        ("l40s", 49141, 46068, 45589),  # 46069 x 16 / 15 = 49140.27
        ("t4", 16384, 15360, 15102),  # 15361 x 16 / 15 = 16385.07, nominal 16384
        ("p40", 24576, 23040, None),
        # seen with ECC off: on is floor(off x 15 / 16), and its CUDA total loses what the reported total loses
        ("rtx4090", 24564, 23028, None),
        ("rtx4090_48mod", 49140, 46068, None),
        ("rtx6000_ada", 49140, 46068, 45550),  # 48622 - (49140 - 46068)
        ("rtx_a5000", 24564, 23028, 22602),  # 24138 - 1536
        ("quadro_rtx8000", 49152, 46080, 45529),  # 48601 - 3072; the old driver's 48601 reported is left out
        # old drivers print another quantity: 81251, 24220 and 24258 are not the smallest
        ("a100_sxm_80", 81920, 81920, None),
        ("titan_rtx", 24576, 24576, None),
        ("a30", 24576, 24576, None),
        # nothing reported: nominal x 2^30 bounds from above, nothing from below
        ("a100_pcie_40", 40960, None, 40513),
        ("rtxpro6000mq", 98304, None, None),  # only a Windows torch total is known
        ("gb10", 131072, None, None),
        ("mi250", 65536, None, None),  # a board of 128 GB is two devices
        ("rtx3080_12", 12288, None, None),
    ],
)
def test_capacities_worked_by_hand(key: str, largest_mib: int, smallest_mib: int | None, cuda_mib: int | None) -> None:
    device = DEVICES[key]
    assert mib(device.largest_bytes) == largest_mib
    assert mib(device.smallest_bytes) == smallest_mib
    assert mib(device.cuda_total_bytes) == cuda_mib
    assert device.largest_basis
    assert device.smallest_basis


def test_no_figure_exceeds_what_bounds_it() -> None:
    for key, device in DEVICES.items():
        assert device.key == key
        assert 0 < device.largest_bytes <= int(device.nominal_gb) * GIB
        if device.smallest_bytes is not None:
            assert device.smallest_bytes <= device.largest_bytes
            assert device.cuda_total_bytes is None or device.cuda_total_bytes <= device.smallest_bytes
        else:
            assert device.reported_bytes is None
        if device.reported_bytes is not None:
            assert device.smallest_bytes is not None
            assert device.smallest_bytes <= device.reported_bytes <= device.largest_bytes


def test_every_comparable_observation_lies_between_the_bounds() -> None:
    seen = 0
    for row in table("gpu_memory_observations.csv"):
        device = DEVICES[row["gpu_key"]]
        if (
            row["kind"] in ("nvidia-smi memory.total", "rocm-smi VRAM total")
            and row["mib"]
            and not row["note"].count("old")
        ):
            assert device.smallest_bytes is not None
            assert device.smallest_bytes <= int(row["mib"]) * MIB <= device.largest_bytes, row
            seen += 1
    assert seen > 60


def test_known_pairs_of_inline_ecc_are_predicted() -> None:
    for off, on in ((49140, 46068), (16384, 15360), (24576, 23040), (16380, 15356)):
        assert smallest([Figure(off, "off")], inline_ecc=True).mib == on
        predicted = largest("64", [Figure(on, "on")], inline_ecc=True).mib
        assert predicted is not None
        assert off <= predicted <= off + 2


def test_memory_that_keeps_its_size_with_ecc_is_left_alone() -> None:
    for figures in ([Figure(81559, "on")], [Figure(16311, "off")], [Figure(97887, "")]):
        assert largest("96", figures, inline_ecc=False).mib == figures[0].mib
        assert smallest(figures, inline_ecc=False).mib == figures[0].mib


def test_a_cuda_total_seen_with_ecc_on_is_used_as_it_is() -> None:
    assert cuda_total([Figure(45416, "on")], 49140, 46068).mib == 45416
    assert cuda_total([], 49140, 46068).mib is None


def test_form_of_the_rows() -> None:
    for row in table("gpus.csv"):
        assert re.fullmatch(r"[a-z0-9_]+", row["gpu_key"])
        assert row["marketing_name"]
        assert row["sources"] or not row["reported_mib"]
        assert re.fullmatch(r"[1-9][0-9]*", row["nominal_gb"])
        if row["vendor"] == "NVIDIA":
            assert re.fullmatch(r"[0-9]{1,2}\.[0-9]", row["compute_capability"])
        else:
            assert not row["compute_capability"]
        if row["vendor"] == "AMD":
            assert row["gfx_arch"].startswith("gfx")
    for (key, profile), row in mig_profiles().items():
        assert key in DEVICES
        assert row["source"]
        gigabytes = int(re.split(r"[.g+]", profile)[2])
        assert int(row["reported_mib"] or 1) <= gigabytes * 1024
        assert float(row["lgip_gib"] or 0) <= gigabytes


def test_every_alias_leads_to_known_devices() -> None:
    for row in table("gpu_aliases.csv"):
        keys = [row["gpu_key"]] if row["gpu_key"] else row["candidates"].split("|")
        assert set(keys) <= set(DEVICES), row


def test_no_table_mentions_a_private_place() -> None:
    for path in DATA.iterdir():
        text = path.read_text(encoding="utf-8")
        for private in ("/work", "/tmp", "/root", "stored index"):
            assert private not in text


@pytest.mark.parametrize("name", ["gpus.csv", "gpu_memory_observations.csv", "mig.csv"])
def test_shipped_rows_equal_their_sources(name: str) -> None:
    shipped = table(name)
    for original, copy in zip(sources(name), shipped, strict=False):
        per_board = {"mi250": 2, "mi250x": 2}.get(original["gpu_key"]) if name == "gpus.csv" else None
        for column in copy.keys() & original.keys() - {"source"}:
            wanted = original[column]
            if column == "nominal_gb" and per_board:
                wanted = str(int(wanted) // per_board)
            assert copy[column] == wanted, (original["gpu_key"], column)
    added = shipped[len(sources(name)) :]
    assert all(not row["reported_mib"] and not row["cuda_total_mib"] for row in added), "added rows are nominal only"
    assert name == "gpus.csv" or not added


def test_shipped_aliases_are_a_subset_of_their_sources_and_our_own() -> None:
    original = {
        (row["alias"], row["spelling_system"], row["gpu_key"], row["candidates"]) for row in sources("gpu_aliases.csv")
    }
    for row in table("gpu_aliases.csv"):
        words = (row["alias"], row["spelling_system"], row["gpu_key"], row["candidates"])
        assert words in original or row["spelling_system"] == "people"


def test_the_shipped_schema_is_the_one_of_the_types() -> None:
    built = runpy.run_path(str(ROOT / "scripts" / "offer_schema.py"))["build"]()
    assert offer_schema() == json.loads(json.dumps(built))
