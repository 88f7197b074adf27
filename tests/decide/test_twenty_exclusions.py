"""The table of twenty exclusions in the docs, checked: its arithmetic, and the program's reasons for each row."""

from __future__ import annotations

import csv
import datetime
import json
import os
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

import capienza
from capienza.api import decide

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
PAGE = ROOT / "docs" / "explanation" / "twenty-exclusions.md"
OFFERS = EXAMPLES / "offers" / "excluded-twenty.yaml"
EVIDENCE = EXAMPLES / "evidence" / "twenty"
NOW = datetime.datetime(2026, 12, 1, 9, tzinfo=datetime.UTC)
NUMBER = re.compile(r"\d+(?:\.\d+)?")
TABLE = re.compile(r"^\| (\S+) \| (order\S*) \| (\w+) \| (.*) \| (.*) \|$", re.MULTILINE)
ROWS = [match.groups() for match in TABLE.finditer(PAGE.read_text())]
NAMES = [row[0] for row in ROWS]
# What takes each exclusion away: another word in the offer, or no record.
CURES = {
    "small-4090": ("gpu: RTX 4090, memory: 24 GB", "gpu: RTX 6000 Ada, memory: 48 GB"),
    "long-h100": None,
    "one-6000ada": ("cards: 1, gpus_per_node: 1", "cards: 2, gpus_per_node: 2"),
    "apart-a6000": ("lots: 2, cards: 1, gpus_per_node: 1", "lots: 1, cards: 2, gpus_per_node: 2"),
    "pcie-6000ada": ("gpu_link: pcie", "gpu_link: nvlink"),
    "ram-6000ada": ("ram: 48 GiB", "ram: 64 GiB"),
    "disk-6000ada": ("disk: 120 GB", "disk: 200 GB"),
    "slurm-6000ada": ("managed_application: Slurm", "managed_application: JupyterLab"),
    "dear-pro6000": ("312.50 USD", "300.00 USD"),
    "minimum-a6000": ("min_hours: 168", "min_hours: 157"),
    "tax-h100": ("tax_included: false, tax_percent: 22", "tax_included: true"),
    "fee-a100": ("kind: setup, amount: 75 USD", "kind: setup, amount: 74.60 USD"),
    "after-6000ada": ("starts: 2026-12-14", "starts: 2026-12-07"),
    "short-6000ada": ('starts: "2026-12-10T18:00:00+01:00"', 'starts: "2026-12-10T16:00:00+01:00"'),
    "late-6000ada": None,
}


def decided(card, offers=OFFERS, evidence=EVIDENCE):
    run = decide(EXAMPLES / "cards" / f"{card}.yaml", [offers], evidence, NOW)
    found = {one.offer.id: one.decision for one in run.judged}
    assert [finding.message.code for finding in run.findings.kept] == ["catalog.mixed-currencies"]
    assert not run.record_findings
    return found


@pytest.fixture(scope="module")
def decisions():
    return {card: decided(card) for card in {row[1] for row in ROWS}}


def value(expression):
    assert re.fullmatch(r"[\d.+\-*/() ]+", expression), expression
    return eval(NUMBER.sub(lambda number: f'Fraction("{number[0]}")', expression), {"Fraction": Fraction})


def test_every_offer_of_the_file_has_one_row():
    assert re.findall(r"^- {id: (\S+),", OFFERS.read_text(), re.MULTILINE) == NAMES
    assert len(set(NAMES)) == 20
    assert {criterion for _, _, criterion, _, _ in ROWS} == {
        "workload", "compatibility", "memory", "quality", "placement", "budget",
    }  # fmt: skip


@pytest.mark.parametrize("offer, card, criterion, by_hand, document", ROWS, ids=NAMES)
def test_the_arithmetic_of_the_page_is_right(offer, card, criterion, by_hand, document):
    written = re.findall(r"`([^`]+)`", by_hand)
    assert written or offer in ("pcie-6000ada", "slurm-6000ada")
    for statement in written:
        parts = re.split(r" ([=<>]) ", statement)
        for left, sign, right in zip(parts[::2], parts[1::2], parts[2::2], strict=False):
            holds = {"=": value(left) == value(right), "<": value(left) < value(right), ">": value(left) > value(right)}
            assert holds[sign], statement


@pytest.mark.parametrize("offer, card, criterion, by_hand, document", ROWS, ids=NAMES)
def test_the_program_gives_the_reason_of_the_page(decisions, offer, card, criterion, by_hand, document):
    decision = decisions[card][offer]
    assert [row.criterion for row in decision.criteria if row.state == "exclude"] == [criterion]
    verdict = decision.criterion(criterion)
    said = " · ".join(str(reason) for reason in verdict.reasons)
    figures = re.findall(r"\*\*([^*]+)\*\*", by_hand)
    assert figures
    assert [figure for figure in figures if figure not in said] == [], said
    cited = {
        (ref.id[:12] if len(ref.id) == 64 else ref.id, ref.version, str(ref.date)[:10], (ref.sha256 or "")[:12])
        for ref in verdict.evidence
    }
    if ":" not in document:
        assert tuple(document.split()) in cited, ("run scripts/docs where only the digest differs", cited)


def test_the_tables_and_the_model_say_what_the_page_cites():
    with (Path(capienza.__file__).parent / "catalog" / "data" / "gpus.csv").open(newline="") as file:
        rows = {row["gpu_key"]: row for row in csv.DictReader(file)}
    assert (rows["rtx4090"]["reported_mib"], rows["rtx4090"]["reported_kind"]) == ("24564", "nvidia-smi memory.total")
    assert rows["quadro_rtx8000"]["compute_capability"] == "7.5"
    config = json.loads((EXAMPLES / "configs" / "Qwen--Qwen3-8B" / "config.json").read_text())
    assert config["max_position_embeddings"] == 40960
    width, layers, inner, words = (
        config[name] for name in ("hidden_size", "num_hidden_layers", "intermediate_size", "vocab_size")
    )
    keys = config["num_key_value_heads"] * config["head_dim"]
    layer = 2 * width * width + 2 * width * keys + 3 * width * inner + 2 * config["head_dim"] + 2 * width
    assert layers * layer + 2 * words * width + width == 8190735360


@pytest.mark.parametrize("offer, card, criterion, by_hand, document", ROWS, ids=NAMES)
def test_without_the_one_thing_nothing_excludes(tmp_path, offer, card, criterion, by_hand, document):
    """The exclusion is for the reason that is given: it goes when that goes, and no other takes its place."""
    cure = CURES.get(offer, "no record")
    offers, evidence = OFFERS, EVIDENCE
    if cure is None:
        card = "order"
    elif cure == "no record":
        evidence = None
    else:
        old, new = cure
        lines = OFFERS.read_text().splitlines()
        (number,) = [index for index, line in enumerate(lines) if f"id: {offer}," in line]
        assert old in lines[number]
        lines[number] = lines[number].replace(old, new)
        offers = tmp_path / "offers.yaml"
        offers.write_text("\n".join(lines) + "\n")
    states = {row.criterion: row.state for row in decided(card, offers, evidence)[offer].criteria}
    assert "exclude" not in states.values(), states


PRINT_DIGEST = """
import datetime, hashlib, sys
from capienza.api import decide
from capienza.canon import canonical
everything = hashlib.sha256()
card, offers, evidence = sys.argv[1:]
run = decide(card, [offers], evidence, datetime.datetime(2026, 12, 1, 9, tzinfo=datetime.UTC))
for one in run.judged:
    everything.update(canonical(one.decision))
print(everything.hexdigest())
"""


def test_the_same_files_give_the_same_bytes_in_any_process_and_folder(tmp_path):
    """Other hash seeds, another folder to start from: not one byte of a decision differs."""
    files = (EXAMPLES / "cards" / "order-fp8.yaml", OFFERS, EVIDENCE)
    outputs = set()
    for seed, folder in (("1", ROOT), ("2", tmp_path), ("3", EXAMPLES / "cards")):
        arguments = [os.path.relpath(path, folder) if seed != "2" else str(path) for path in files]
        run = subprocess.run(
            [sys.executable, "-c", PRINT_DIGEST, *arguments],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT / "src")},
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        )
        outputs.add(run.stdout)
    assert len(outputs) == 1
