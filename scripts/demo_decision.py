"""A card, offers and records under which something is selected, written to a folder: `demo_decision.py FOLDER`.

The GPUs and the model's shape are real; prices, sellers, readings and names are invented. Dates are counted from now,
so that the example stays valid whenever it is made.
"""

from __future__ import annotations

import datetime
import os
import sys
from decimal import Decimal
from pathlib import Path

from capienza.canon import digest_bytes
from capienza.evidence.claims import AS_EXPECTED, CONTROLS, threshold_text
from capienza.evidence.record import Claim, Record, Scope, Subject
from capienza.evidence.store import seal, write_record

ROOT = Path(__file__).parents[1]
CONFIG = ROOT / "examples" / "configs" / "Qwen--Qwen3-8B"
REVISION = "9c925d64d72725edaf899c6cb9c377fd0709d9c5"
MIB = 2**20
CORPUS = "eval/corpus.jsonl"
DAY = datetime.timedelta(days=1)

CARD = """capienza: 1
name: support-assistant
model: {{path: {config}, revision: {revision}}}
task: inference
weights: {{format: bf16}}
engine: {{name: vllm, version: "0.11.2"}}
tokens: {{required: {{prompt: 6144, output: 2048}}}}
concurrency: 4
margin: {{amount: 2 GiB, reason: spread of three observed runs}}
quality: {{corpus: {corpus}, metrics: [{{name: exact_match, min: 0.82}}]}}
placement: {{gpus: 1}}
host: {{ram: 64 GiB, storage: 200 GB, interconnect: none, managed_application: none, others_use: 0 GiB}}
budget: {{cap: 300 USD}}
calendar:
  timezone: Europe/Rome
  start: {start}
  deadline: {deadline}
  steps: [{{name: pilot, hours: 6, basis: measured}}, {{name: run, hours: 30, basis: measured}}]
"""
OFFER = """- id: {id}
  provider: {provider}
  gpu: {gpu}
  memory: {memory}
  lots: 1
  cards: 1
  gpus_per_node: 1
  gpu_link: none
  days: 3
  total: {total}
  tax_included: true
  starts: {starts}
  ends: {ends}
{host}  document:
    id: {id}-sheet
    version: "{version}"
    retrieved: {retrieved}
    valid_until: {until}
    source: "{source}"
"""
HOST = "  host: {ram: 128 GiB, disk: 500 GB}\n"


def make(folder: Path, now: datetime.datetime) -> None:
    """Write card.yaml, offers.yaml and evidence/ as of `now`, which has an offset."""
    folder.mkdir(parents=True, exist_ok=True)
    start = (now + 7 * DAY).replace(hour=8, minute=0, second=0, microsecond=0)
    days = {"start": start.date(), "deadline": (start + 6 * DAY).date()}
    corpus = folder / CORPUS
    corpus.parent.mkdir(exist_ok=True)
    corpus.write_text('{"prompt": "2 + 2 =", "answer": "4"}\n')
    config = os.path.relpath(CONFIG, folder)
    (folder / "card.yaml").write_text(CARD.format(config=config, revision=REVISION, corpus=CORPUS, **days))
    rows = (
        ("ada-1x3d", "nord", "RTX 6000 Ada", "48 GB", "55.71 USD", HOST),
        ("l40s-1x3d", "arno", "L40S", "48 GB", "61.20 USD", ""),
        ("h100-1x3d", "delta", "H100 PCIe", "80 GB", "129.60 USD", HOST),
        ("h200-1x3d", "delta", "H200 SXM", "141 GB", "312.00 USD", HOST),
        ("t4-1x3d", "nord", "Tesla T4", "16 GB", "18.00 USD", HOST),
    )
    text = "".join(
        OFFER.format(
            id=name,
            provider=provider,
            gpu=gpu,
            memory=memory,
            total=total,
            host=host,
            starts=start.isoformat(),
            ends=(start + 3 * DAY).isoformat(),
            version=f"{now:%Y-%m}",
            retrieved=(now - 2 * DAY).date(),
            until=(now + 20 * DAY).isoformat(timespec="minutes"),
            source=f"https://{provider}.example/offers/{name}",
        )
        for name, provider, gpu, memory, total, host in rows
    )
    (folder / "offers.yaml").write_text(text)
    for record in records(now, corpus):
        write_record(record, folder / "evidence")


def records(now: datetime.datetime, corpus: Path) -> list[Record]:
    """Measured runs, quality results under a plan made before them, and a waiver for what one seller leaves out."""
    subject = Subject(name=CORPUS, sha256=digest_bytes(corpus.read_bytes()))
    fixed = Claim(quantity="exact_match", value="planned", basis=threshold_text(Decimal("0.82"), None))
    base = {"kind": "plan", "version": "1", "date": now - 4 * DAY, "producer": {"tool": "example"}}
    plan = seal(Record(**base, subject=(subject,), claims=(fixed,)))
    found = [plan]
    for gpu, peaks in (("rtx6000_ada", (18240, 24610, 23870)), ("l40s", (18240, 24730, 23990))):
        found += [_run(gpu, peaks, now), _quality(gpu, now, plan)]
    waiver = Record(
        kind="waiver",
        version="1",
        date=now - DAY,
        scope=Scope(model=CONFIG.name, offer="l40s-1x3d"),
        claims=(Claim(quantity="placement", value="waived"),),
        producer={"author": "A. Engineer"},
        notes=("the seller confirmed RAM and disk by telephone",),
        expires=now + 10 * DAY,
    )
    return [*found, seal(waiver)]


def _scope(gpu: str) -> Scope:
    return Scope(
        model=CONFIG.name,
        revision=REVISION,
        task="inference",
        weight_format="bf16",
        kv_format="bf16",
        engine="vllm",
        engine_version="0.11.2",
        gpu=gpu,
        gpus=1,
        driver="580.95.05",
        tokens=8192,
        concurrency=4,
        configuration="defaults",
    )


def _run(gpu: str, peaks_mib: tuple[int, int, int], now: datetime.datetime) -> Record:
    peaks = zip(("load", "prefill", "decode"), peaks_mib, strict=True)
    return seal(
        Record(
            kind="measurement",
            version="1",
            date=now - 3 * DAY,
            scope=_scope(gpu),
            method="measure",
            mode="automatic",
            producer={"tool": "example"},
            claims=(
                Claim(quantity="outcome", value="completed"),
                Claim(quantity="truncated_inputs", value=0),
                Claim(quantity="dropped_samples", value=0),
                *(
                    Claim(quantity="peak_bytes", value=mib * MIB, unit="B", phase=phase, counter="device", gpu_index=0)
                    for phase, mib in peaks
                ),
            ),
            expires=now + 60 * DAY,
        )
    )


def _quality(gpu: str, now: datetime.datetime, plan: Record) -> Record:
    return seal(
        Record(
            kind="quality_result",
            version="1",
            date=now - 3 * DAY,
            scope=_scope(gpu),
            subject=plan.subject,
            inputs=(plan.id,),
            claims=(
                Claim(quantity="exact_match", value="satisfied", basis=threshold_text(Decimal("0.82"), None)),
                *(Claim(quantity=control, value=AS_EXPECTED) for control in CONTROLS),
            ),
        )
    )


if __name__ == "__main__":
    make(Path(sys.argv[1]), datetime.datetime.now(datetime.UTC).replace(microsecond=0))
