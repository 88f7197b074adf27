"""Time and peak memory of a whole comparison: reads the corpus and four arms, judges, and prints both.

    python bench/quality_compare.py [--items 100000] [--harness]

Metrics: exact match, choice, and a log-probability with the bootstrap over documents, five items to a document. The
data are made in one process and compared in another, whose own peak of resident memory is what is printed.
To reach: 100,000 items in 10 s and 500 MB.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

from capienza.quality.answers import Header
from capienza.quality.corpus import digest
from capienza.quality.plan import ARMS, Answering, PlannedCorpus, PlannedMetric, QualityPlan, frozen, write_plan

NOW = datetime.datetime(2026, 11, 30, 12, tzinfo=datetime.UTC)
LABELS = ["A", "B", "C", "D"]
WRONG = {"reference": 0.2, "reference_again": 0.2, "candidate": 0.21, "harmed": 0.6}


def made(folder: Path, count: int, *, is_harness: bool) -> list[str]:
    """The plan's file, and that of each arm."""
    corpus = folder / "corpus.jsonl"
    with corpus.open("w") as file:
        for n in range(count):
            prompt = f"Question {n} of a document: which of the four answers is right, and why is it so?"
            row = {"id": f"t/{n}", "cluster": f"d{n // 5}", "prompt": prompt, "expected": LABELS[n % 4]}
            file.write(json.dumps({**row, "choices": LABELS}) + "\n")
    metrics = [
        PlannedMetric(name="exact_match", kind="exact_match", max_regression=Decimal("0.03")),
        PlannedMetric(name="choice", kind="choice", max_regression=Decimal("0.03")),
        PlannedMetric(name="logprob", kind="logprob", max_regression=Decimal("0.5")),
    ]
    plan = frozen(
        QualityPlan(
            name="bench",
            task="inference",
            date=NOW,
            corpus=PlannedCorpus(
                name=corpus.name,
                sha256=digest(str(corpus)),
                items=tuple((f"t/{n}", f"d{n // 5}") for n in range(count)),
            ),
            reference=Answering(model="m", weight_format="bf16"),
            candidate=Answering(model="m", weight_format="int4"),
            harmed=Answering(model="m", weight_format="q2_k"),
            metrics=tuple(metrics),
            alpha=Decimal("0.025"),
            power=Decimal("0.9"),
            discordant_share=Decimal("0.05"),
        )
    )
    path = folder / "plan.json"
    write_plan(plan, path)
    return [str(path), *(_arm(folder, plan, arm, count, is_harness=is_harness) for arm in ARMS)]


def _arm(folder: Path, plan: QualityPlan, arm: str, count: int, *, is_harness: bool) -> str:
    draw, shared = random.Random(arm), random.Random(1)
    rows = ((n, shared.random() < WRONG[arm], -1.0 - draw.random()) for n in range(count))
    if is_harness:
        return _samples(folder, arm, rows)
    path = folder / f"{arm}.jsonl"
    header = Header(plan=plan.id, arm=arm, target="bench", date=NOW + datetime.timedelta(hours=1))  # type: ignore[arg-type]
    with path.open("wb") as file:
        import msgspec

        file.write(msgspec.json.encode(header) + b"\n")
        for n, is_wrong, logprob in rows:
            row = {"item": f"t/{n}", "output": LABELS[(n + is_wrong) % 4], "finish_reason": "stop"}
            line = {**row, "prompt_tokens": 30, "output_tokens": 1, "logprob": logprob}
            file.write(json.dumps(line).encode() + b"\n")
    return str(path)


def _samples(folder: Path, arm: str, rows: Iterator[tuple[int, bool, float]]) -> str:
    """The arm as a sample log of lm-evaluation-harness, with the file of results beside it."""
    own, stamp = folder / arm, "2026-11-30T14-00-00.000001"
    own.mkdir()
    results = {"date": NOW.timestamp() + 60, "versions": {"t": 1.0}, "configs": {"t": {}}, "n-shot": {"t": 0}}
    (own / f"results_{stamp}.json").write_text(json.dumps(results))
    path = own / f"samples_t_{stamp}.jsonl"
    with path.open("w") as file:
        for n, is_wrong, logprob in rows:
            prompt = f"Question {n} of a document: which of the four answers is right, and why is it so?"
            said = (n + is_wrong) % 4
            each = [["%r" % (logprob - (label != said) * 3), "False"] for label in range(4)]
            row = {
                "doc_id": n,
                "doc": {"question": prompt, "choices": LABELS, "answer": n % 4},
                "target": str(n % 4),
                "arguments": {f"gen_args_{k}": {"arg_0": prompt, "arg_1": f" {LABELS[k]}"} for k in range(4)},
                "resps": [[pair] for pair in each],
                "filtered_resps": each,
                "filter": "none",
                "metrics": ["acc"],
                "doc_hash": hashlib.sha256(str(n).encode()).hexdigest(),
                "prompt_hash": hashlib.sha256(prompt.encode()).hexdigest(),
                "target_hash": hashlib.sha256(str(n % 4).encode()).hexdigest(),
                "acc": float(not is_wrong),
            }
            file.write(json.dumps(row) + "\n")
    return str(path)


def compared(files: list[str]) -> None:
    """Compare, and print what it took of this process."""
    from capienza.api.qualifying import quality_compare

    plan, reference, again, candidate, harmed = files
    before = time.perf_counter()
    found = quality_compare(plan, reference, candidate, reference_again=again, harmed=harmed, evidence=None)
    took = time.perf_counter() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    words = ", ".join(f"{name} {word}" for name, word in found.comparison.words.items())
    print(f"{found.comparison.results[0].items:,} items: {took:.1f} s, peak {peak / 1e6:.0f} MB ({words})")
    for doubt in found.comparison.doubts:
        print(f"  {doubt}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--harness", action="store_true", help="arms as sample logs of lm-evaluation-harness")
    parser.add_argument("--files", nargs=5, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.files:
        compared(given.files)
    else:
        with tempfile.TemporaryDirectory() as made_in:
            files = made(Path(made_in), given.items, is_harness=given.harness)
            subprocess.run([sys.executable, __file__, "--files", *files], check=True)
