"""The real samples beside the project: every row is an offer or is said to be none, and no trap passes unsaid."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from offer_files import SHARED, placeless

from capienza.api.offer_files import offers_import
from capienza.catalog.importers.table import form_of
from capienza.catalog.read import read_offers
from capienza.units import MIB

SAMPLES = {
    "gpuhunt_format_example.csv": (4, 0),
    "skypilot/vast_vms_01b8cdda.csv": (67, 0),
    "skypilot/lambda_vms_0f407038_sample.csv": (10, 1),
    "skypilot/runpod_vms_01acdfd4_sample.csv": (18, 0),
}


def sample(name: str) -> Path:
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"the sample {name} is not beside this checkout")
    return path


@pytest.mark.parametrize("name", SAMPLES)
def test_every_row_is_an_offer_or_is_said_to_be_none(tmp_path: Path, name: str) -> None:
    report = offers_import(sample(name), tmp_path / "out.jsonl", retrieved="2026-11-28")
    made, left = SAMPLES[name]
    assert report.count == made
    assert sum(count for code, count in report.findings.counts.items() if "left-out" in code) == left
    offers = list(read_offers(tmp_path / "out.jsonl"))
    assert len({offer.id for offer in offers}) == made
    assert all(offer.gpu.candidates for offer in offers)


def test_the_traps_of_the_vast_sample(tmp_path: Path) -> None:
    report = offers_import(sample("skypilot/vast_vms_01b8cdda.csv"), tmp_path / "out.jsonl", retrieved="2026-11-28")
    offers = [placeless(offer) for offer in read_offers(tmp_path / "out.jsonl")]
    reported = {offer.id.split("/")[2] + offer.id[-2:]: offer.gpu.memory_reported_bytes for offer in offers}
    assert reported["8x-H200-32-65536EU"] == 143771 * MIB
    assert reported["1x-RTX_4090-32-65536AS"] == 49140 * MIB
    assert reported["1x-RTX_4090-32-65536EU"] == 24564 * MIB
    keys = Counter(key for offer in offers for key in offer.gpu.candidates)
    assert keys["rtx4090_48mod"] == 1
    assert {"a100_sxm_40", "a100_pcie_80", "h100_nvl", "h100_sxm", "rtx4060ti_16", "rtx3060ti", "rtx4070tis"} <= set(
        keys
    )
    counts = report.findings.counts
    assert counts["import.price-unknown"] == 67
    assert counts["import.aftermarket"] == 1
    assert {"import.skypilot-total", "import.skypilot-filter", "import.skypilot-merged", "import.in-dollars"} <= set(
        counts
    )
    assert all(offer.price.money and offer.price.kind == "per_offer_hour" for offer in offers)


def test_the_traps_of_the_runpod_sample(tmp_path: Path) -> None:
    report = offers_import(
        sample("skypilot/runpod_vms_01acdfd4_sample.csv"), tmp_path / "out.jsonl", retrieved="2026-11-28"
    )
    offers = list(read_offers(tmp_path / "out.jsonl"))
    assert {offer.gpu.memory_nominal for offer in offers} == {"80 GB"}
    assert all(not offer.price.interruptible for offer in offers)
    counts = report.findings.counts
    assert counts["import.skypilot-spot-equal"] == 18
    assert {"import.not-stock", "import.skypilot-gigabytes"} <= set(counts)


def test_the_samples_are_recognised() -> None:
    forms = {name: form_of(sample(name)) for name in SAMPLES}
    assert {name: form.name for name, form in forms.items() if form} == {
        name: "gpuhunt" if "gpuhunt" in name else "skypilot" for name in SAMPLES
    }
