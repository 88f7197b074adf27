"""The answer of `decide` as JSON (`capienza.decide/1`), written piece by piece: the offers may be many."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from capienza.canon import plain, seen
from capienza.catalog.offer import Offer
from capienza.decide.run import Decided, Judged
from capienza.decide.summary import Summary
from capienza.decide.verdict import CriterionVerdict, Decision
from capienza.report.bill import cost_data
from capienza.report.messages import message_data
from capienza.report.offers import findings_data
from capienza.report.ranking import ranking_data, step_data
from capienza.report.size_data import total_data
from capienza.report.tool import TOOL

DECIDE_SCHEMA = "capienza.decide/1"


def decision_chunks(judged: Iterable[Judged]) -> Iterator[str]:
    """The decisions as the items of a JSON list, in pieces."""
    written: dict[int, tuple[CriterionVerdict, str]] = {}
    separator = "\n"
    for one in judged:
        yield separator + _decision_text(one.offer, one.decision, written)
        separator = ",\n"


def head_text(decided: Decided, summary: Summary) -> str:
    """The document up to the items of its last member, the list of decisions; closing brackets end it."""
    card = decided.card
    head = {
        "schema": DECIDE_SCHEMA,
        "tool": TOOL,
        "now": decided.now,
        "card": {"name": card.name, "file": card.file, "sha256": card.sha256},
        "counts": summary.counts,
        "ranking": ranking_data(card),
        "steps": [step_data(step) for step in summary.steps],
        "shortlist": {
            "lists": summary.shortlist.lists,
            "excluded": summary.shortlist.excluded,
            "notes": [message_data(note) for note in summary.shortlist.notes],
        },
        "card_findings": [message_data(finding) for finding in decided.card_findings],
        "findings": findings_data(decided.findings),
        "record_findings": [message_data(finding) for finding in decided.record_findings],
    }
    return _text(head)[:-1] + ', "decisions": ['


def criterion_data(row: CriterionVerdict) -> dict[str, Any]:
    """One cell of the verdict table in full."""
    return {
        "criterion": row.criterion,
        "state": row.state,
        "reasons": [message_data(reason) for reason in row.reasons],
        "evidence": list(row.evidence),
        "settle": [message_data(step) for step in row.settle],
        "waiver": row.waiver,
    }


def why_data(decision: Decision, row: CriterionVerdict) -> dict[str, Any]:
    """One cell of the verdict table in full, with the bill where it is about money."""
    bill = {"cost": cost_data(decision.cost), "converted": decision.converted} if row.criterion == "budget" else {}
    return criterion_data(row) | bill


def _decision_text(offer: Offer, decision: Decision, written: dict[int, tuple[CriterionVerdict, str]]) -> str:
    """One decision; criteria shared by a card class are turned into text once."""
    criteria = ", ".join(_criterion_text(row, written) for row in decision.criteria)
    prediction = decision.prediction
    rest = {
        "offer": decision.offer,
        "provider": offer.provider,
        "gpu": offer.gpu.name_raw,
        "candidates": offer.gpu.candidates,
        "gpus": offer.gpus,
        "state": decision.state,
        "prediction": None
        if prediction is None
        else {
            "fit": prediction.fit,
            "gpu": prediction.device,
            "usable_bytes": prediction.usable_bytes,
            **total_data(prediction.peak),
        },
        "margin": decision.margin,
        "cost": cost_data(decision.cost),
        "converted": decision.converted,
        "finish": decision.finish,
    }
    return f'{_text(rest)[:-1]}, "criteria": [{criteria}]}}'


def _criterion_text(row: CriterionVerdict, written: dict[int, tuple[CriterionVerdict, str]]) -> str:
    known = written.get(id(row))
    if known is None:
        # The verdict is kept beside its text, so that no other object can take its place in memory.
        known = row, _text(criterion_data(row))
        if len(written) < 10_000:
            written[id(row)] = known
    return known[1]


def _text(value: Any) -> str:
    return seen(json.dumps(plain(value), allow_nan=False, ensure_ascii=False))
