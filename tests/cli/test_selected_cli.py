"""The whole way: a model on a Hub, a card, a documented offer and records make an offer selected; less does not."""

import json
import re
import shutil
import sys
from pathlib import Path

import huggingface_hub
import msgspec
import pytest
from huggingface_hub import constants

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
from loopback_hub import LoopbackHub  # noqa: E402

from capienza.api.recording import evidence_add  # noqa: E402
from capienza.evidence.store import read_record, seal, write_record  # noqa: E402

CARD = """capienza: 1
name: assistant
model: {id: Qwen/Qwen3-8B}
task: inference
weights: {format: bf16}
engine: {name: vllm, version: "0.11.2"}
tokens: {required: 8192}
concurrency: 4
margin: {amount: 2 GiB, reason: spread of three runs}
quality: {corpus: corpus.jsonl, metrics: [{name: exact_match, min: 0.82}]}
placement: {gpus: 1}
host: {ram: 64 GiB, storage: 200 GB, interconnect: none, managed_application: none}
budget: {cap: 300 USD}
calendar: none
"""
OFFERS = """
- id: ada
  provider: example
  gpu: RTX 6000 Ada
  memory: 48 GB
  cards: 1
  days: 3
  total: 55.71 USD
  tax_included: true
  host: {ram: 128 GiB, disk: 500 GB}
  document: {id: sheet, version: 2026-11, retrieved: 2026-11-29}
"""


@pytest.fixture
def world(tmp_path, monkeypatch):
    """Card, offers and the evidence that the how-to writes, with the model on a loopback Hub."""
    served = tmp_path / "served" / "Qwen" / "Qwen3-8B"
    shutil.copytree(ROOT / "examples" / "configs" / "Qwen--Qwen3-8B", served)
    (tmp_path / "card.yaml").write_text(CARD)
    (tmp_path / "corpus.jsonl").write_text("{}\n")
    (tmp_path / "offers.yaml").write_text(OFFERS)
    monkeypatch.chdir(tmp_path)
    with LoopbackHub(tmp_path / "served") as server:
        monkeypatch.setattr(constants, "ENDPOINT", server.endpoint)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        (tmp_path / "server.log").write_text("started\n")
        forms = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "howto" / "evidence.md").read_text(), re.DOTALL)
        assert len(forms) == 3
        plan = ""
        for number, form in enumerate(forms):
            text = re.sub("revision: [0-9a-f]{40}", f"revision: {server.commit('Qwen/Qwen3-8B')}", form)
            (tmp_path / f"form-{number}.yaml").write_text(text.replace("[PLAN]", f"[{plan}]"))
            record = evidence_add("evidence", f"form-{number}.yaml").record
            plan = record.id if record.kind == "plan" else plan
        yield tmp_path
        huggingface_hub.close_session()


def decide(capienza, *more):
    shown = capienza("decide", "card.yaml", "--offers", "offers.yaml", "--json", *more)
    (decision,) = json.loads(shown.out)["decisions"]
    return shown.code, decision


def test_nothing_is_selected_without_evidence(capienza, world):
    code, decision = decide(capienza)
    assert (code, decision["state"]) == (10, "to_confirm")


def test_evidence_in_scope_selects(capienza, world):
    code, decision = decide(capienza, "--evidence", "evidence")
    reasons = [row["reasons"] for row in decision["criteria"] if row["state"] != "admissible"]
    assert (code, decision["state"]) == (0, "admissible"), reasons
    assert decision["margin"]["basis"] == "observed"
    # 46068 MiB is the least that this card reports (ECC on); the fullest phase took 24 GiB.
    assert decision["margin"]["amount_bytes"] == 46068 * 1024**2 - 24 * 1024**3


@pytest.mark.parametrize(
    "old, new",
    [
        ("concurrency: 4", "concurrency: 5"),
        ("required: 8192", "required: 8193"),
        ('version: "0.11.2"', 'version: "0.11.3"'),
        ("format: bf16", "format: fp16"),
        ("amount: 2 GiB", "amount: 21 GiB"),
    ],
)
def test_evidence_outside_its_scope_or_margin_does_not(capienza, world, old, new):
    assert old in CARD
    (world / "card.yaml").write_text(CARD.replace(old, new))
    code, decision = decide(capienza, "--evidence", "evidence")
    assert decision["state"] != "admissible"
    assert code in (10, 11)


def test_a_tampered_record_stops_everything(capienza, world):
    record = next(path for path in (world / "evidence").glob("*.json") if "0.11.2" in path.read_text())
    record.write_text(record.read_text().replace("0.11.2", "0.11.3"))
    shown = capienza("decide", "card.yaml", "--offers", "offers.yaml", "--evidence", "evidence")
    assert shown.code == 20
    assert record.name[:12] in shown.err
    assert shown.out == ""


def test_a_local_model_is_selected_under_the_name_that_the_card_gives_it(capienza, world):
    """The evidence of the how-to, about files that the card names by path and revision."""
    shutil.copytree(ROOT / "examples" / "configs" / "Qwen--Qwen3-8B", world / "Qwen3-8B")
    commit = json.loads(capienza("size", "card.yaml", "--json").out)["model"]["revision"]
    card = CARD.replace("{id: Qwen/Qwen3-8B}", f"{{path: Qwen3-8B, revision: {commit}}}")
    (world / "card.yaml").write_text(card)
    folder = world / "local"
    folder.mkdir()
    for path in (world / "evidence").glob("*.json"):
        record = read_record(path)
        if record.kind != "plan":
            scope = msgspec.structs.replace(record.scope, model="Qwen3-8B")
            record = seal(msgspec.structs.replace(record, scope=scope))
        write_record(record, folder)
    assert decide(capienza, "--evidence", "evidence")[1]["state"] == "to_confirm"
    code, decision = decide(capienza, "--evidence", "local")
    assert (code, decision["state"]) == (0, "admissible")
