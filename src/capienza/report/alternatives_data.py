"""The answer of `alternatives` as JSON (`capienza.alternatives/1`). Sizes are integers, null is unknown."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from capienza.card.model import Budget, Calendar, Card
from capienza.card.quality_model import Quality
from capienza.decide.alternatives.answer import Alternatives
from capienza.decide.alternatives.change import Setting, Value, shown
from capienza.decide.alternatives.effect import PhaseEffect
from capienza.decide.alternatives.find import Alternative
from capienza.decide.alternatives.predicted import Pool, Predicted, fullest
from capienza.decide.alternatives.requirement import effective_batch
from capienza.report.messages import message_data
from capienza.report.size_data import capacity_data, total_data
from capienza.report.tool import TOOL

ALTERNATIVES_SCHEMA = "capienza.alternatives/1"


def alternatives_data(answer: Alternatives) -> dict[str, Any]:
    """Everything that `alternatives` found; the best comes first."""
    scene, found, card = answer.scene, answer.found, answer.scene.card
    return {
        "schema": ALTERNATIVES_SCHEMA,
        "tool": TOOL,
        "card": {"name": card.name, "file": card.file, "sha256": card.sha256, "task": card.task},
        "requirement": _requirement(card),
        "gpu": None if scene.gpu is None else scene.gpu.name,
        "capacity": None if scene.gpu is None else capacity_data(scene.gpu.capacity),
        "offer": answer.offer,
        "gpus": scene.gpus,
        "binding_phase": fullest(scene.now),
        "failed": answer.failed,
        "failed_is_computed": None if answer.failed is None else answer.failed in scene.now.peaks,
        "now": {
            "peaks": [{"phase": phase, **total_data(total)} for phase, total in scene.now.peaks.items()],
            **_predicted(scene.now),
        },
        "alternatives": [_alternative(one, scene.now) for one in found.alternatives],
        "not_offered": [{"kind": one.kind, "reason": message_data(one.reason)} for one in found.not_offered],
        "unchanged": found.unchanged,
        "worse": found.worse,
        "findings": [message_data(finding) for finding in answer.findings],
    }


def _requirement(card: Card) -> dict[str, Any]:
    """What every alternative leaves as it is."""
    required, calendar, budget = card.tokens.required, card.calendar, card.budget
    return {
        "tokens_required": None if required is None else required.total,
        "concurrency": card.concurrency,
        "effective_batch": effective_batch(card),
        "margin_bytes": None if card.margin is None else card.margin.amount_bytes,
        "quality": [
            {"name": metric.name, "min": _text(metric.min), "max_regression": _text(metric.max_regression)}
            for metric in (card.quality.metrics if isinstance(card.quality, Quality) else ())
        ],
        "deadline": calendar.deadline if isinstance(calendar, Calendar) else None,
        "budget_cap": str(budget.cap) if isinstance(budget, Budget) else None,
    }


def _text(value: Decimal | None) -> str | None:
    return None if value is None else f"{value:f}"


def _predicted(predicted: Predicted) -> dict[str, Any]:
    return {
        "predicted_peak": total_data(predicted.peak),
        "fit": predicted.word,
        "is_excluded": predicted.is_excluded,
        "margin_bytes": predicted.margin_bytes,
        "engine": None if predicted.pool is None else _pool(predicted.pool),
        "refused_by": [message_data(message) for message in predicted.refused],
        "open_rules": [message_data(message) for message in predicted.doubts],
    }


def _pool(pool: Pool) -> dict[str, Any]:
    return {name: getattr(pool, name) for name in pool.__struct_fields__}


def _alternative(one: Alternative, now: Predicted) -> dict[str, Any]:
    change = one.change
    return {
        "id": change.id,
        "kind": change.kind,
        "settings": [
            {"path": setting.path, "before": _value(setting.before), "after": _value(setting.after)}
            for setting in change.settings
        ],
        "card_lines": [line(setting) for setting in change.settings if setting.after is not None],
        "gpu": None if change.gpu is None else change.gpu.name,
        "offers": [] if change.gpu is None else list(change.gpu.offers),
        "gpus": one.gpus,
        "gpus_in_all": one.gpus_in_all,
        "relation_to_failed": one.relation,
        "is_refused": bool(one.refused),
        "refused": [message_data(message) for message in one.refused],
        "difference_bytes": one.difference_bytes,
        "known_difference_bytes": None if one.after is None else one.known_bytes,
        "effects": [_effect(effect) for effect in one.effects],
        "after": None if one.after is None else _predicted(one.after),
        "is_better_fit": None if one.after is None or now.word is None else _is_better(one.after, now),
        "invalidates": [
            {"evidence": part.subject, "fields": list(part.fields), "records": list(part.records)}
            for part in one.invalidates
        ],
    }


def _is_better(after: Predicted, now: Predicted) -> bool:
    from capienza.decide.alternatives.effect import fit_order

    return fit_order(after) < fit_order(now)


def line(setting: Setting) -> str:
    """A line of the card by its path, as it would be written."""
    return f"{setting.path}: {shown(setting.after)}"


def _value(value: Value) -> str | int | float | bool | None:
    return f"{value:f}" if isinstance(value, Decimal) else value


def _effect(effect: PhaseEffect) -> dict[str, Any]:
    return {
        "phase": effect.phase,
        "before": None if effect.before is None else total_data(effect.before),
        "after": None if effect.after is None else total_data(effect.after),
        "difference_bytes": effect.difference_bytes,
        "unknown": list(effect.lacking),
    }
