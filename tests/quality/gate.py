"""A small gate for tests: a plan over made-up sums, and answers that are right, wrong or missing as wanted."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

import msgspec

from capienza.quality.answers import Answer, Answers, Header
from capienza.quality.corpus import Corpus, read_corpus
from capienza.quality.plan import ARMS, Answering, Arm, Decoding, PlannedCorpus, PlannedMetric, QualityPlan, frozen

NOW = datetime.datetime(2026, 11, 30, 12, tzinfo=datetime.UTC)
LATER = NOW + datetime.timedelta(hours=1)
NUMERIC = PlannedMetric(name="numeric", kind="numeric", max_regression=Decimal("0.03"), reason="checked by hand")


def written_corpus(folder: Path, count: int = 200, each: int = 1) -> Corpus:
    """Sums, `each` of them to a document."""
    path = folder / "corpus.jsonl"
    rows = (
        {"id": f"q{n}", "cluster": f"d{n // each}", "prompt": f"{n} + 1 =", "expected": n + 1} for n in range(count)
    )
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return read_corpus(str(path))


def plan_for(corpus: Corpus, *metrics: PlannedMetric, **changes: object) -> QualityPlan:
    """A frozen plan over a corpus."""
    plan = QualityPlan(
        name="sums",
        task="inference",
        date=NOW,
        corpus=PlannedCorpus(
            name="corpus.jsonl",
            sha256=corpus.sha256,
            items=tuple((item.id, item.cluster) for item in corpus.items),
        ),
        reference=Answering(model="m", weight_format="bf16"),
        candidate=Answering(model="m", weight_format="int4"),
        harmed=Answering(model="m", weight_format="q2_k"),
        decoding=Decoding(max_tokens=16),
        metrics=metrics or (NUMERIC,),
        alpha=Decimal("0.025"),
        power=Decimal("0.9"),
        discordant_share=Decimal("0.05"),
    )
    return frozen(msgspec.structs.replace(plan, **changes))


def answers(
    plan: QualityPlan, arm: Arm, wrong: int = 0, instead: Mapping[str, Answer | None] | None = None, **header: object
) -> Answers:
    """Right answers, the first `wrong` of them wrong; `instead` puts others in their place, or none."""
    found: dict[str, Answer] = {}
    for number, (identity, _) in enumerate(plan.corpus.items):
        value = number + 1 + (number < wrong)
        answer = (instead or {}).get(identity, Answer(item=identity, output=str(value), finish_reason="stop"))
        if answer is not None:
            found[identity] = answer
    date = LATER + datetime.timedelta(seconds=ARMS.index(arm))
    stated = {"plan": plan.id, "arm": arm, "target": "test", "date": date} | header
    return Answers(file=f"{arm}.jsonl", header=msgspec.convert(stated, Header), by_item=found)
