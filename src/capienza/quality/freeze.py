"""A card and its corpus become a plan: all that the comparison rests on, or what the card does not state."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from decimal import Decimal

import msgspec

from capienza.card import quality_model as model
from capienza.card.model import Card
from capienza.card.quality_model import Answers, Metric, Quality
from capienza.card.quality_rules import kind_of
from capienza.errors import InputError, InputErrors, Message, Place, template
from capienza.evidence.claims import threshold_text
from capienza.quality.corpus import Corpus
from capienza.quality.plan import (
    ALARMS,
    Answering,
    Decoding,
    PlannedCorpus,
    PlannedMetric,
    QualityPlan,
)

ALPHA, POWER, DISCORDANT_SHARE = Decimal("0.025"), Decimal("0.9"), Decimal("0.05")

NO_QUALITY = template(
    "quality.card-without-quality",
    "the card states no quality to compare",
    "write quality with corpus, metrics, reference, harmed and decoding; docs/howto/quality.md has one",
)
NOT_STATED = template(
    "quality.not-stated", "a plan needs {field}, which the card does not state", "write it, for example {example}"
)
NO_KIND = template(
    "quality.metric-without-kind",
    "the metric {metric} does not say what is counted",
    "write its kind; capienza card schema lists them",
)
NO_THRESHOLD = template(
    "quality.metric-without-threshold",
    "the metric {metric} has no threshold",
    "write max_regression, the most it may lose, or min, or both",
)
ONLY_ALARMS = template(
    "quality.only-alarms",
    "every metric is an alarm ({metrics}), and an alarm admits nothing",
    "add a metric of the answers themselves",
)
SAME = template(
    "quality.reference-is-the-candidate",
    "the {arm} is the candidate itself: nothing would be compared",
    "say in what it differs: weights, cache, engine, version, configuration, model or revision",
)


def plan_of(
    card: Card,
    corpus: Corpus,
    corpus_name: str,
    candidate: Answering,
    place_of: Callable[[str], Place],
    now: datetime.datetime,
    digests: tuple[str | None, str | None] = (None, None),
) -> QualityPlan:
    """The plan of a card, before it is looked at and frozen.

    Args:
        card: With its `quality`.
        corpus: What its `quality.corpus` holds.
        corpus_name: The corpus as seen from the card's folder.
        candidate: What the card's own run is, as a record's scope says it.
        place_of: Where a key of the card stands.
        now: The moment of freezing.
        digests: Of tokenizer and chat template, None where not known.

    Raises:
        InputErrors: What the card does not state, or says in a way that compares nothing.
    """
    quality = card.quality
    if not isinstance(quality, Quality):
        raise InputError(NO_QUALITY(), place_of("quality"))
    problems = [InputError(message, place_of(key)) for key, message in _problems(quality, candidate)]
    if problems:
        raise InputErrors(problems)
    return QualityPlan(
        name=card.name,
        task=card.task,
        date=now.astimezone(datetime.UTC),
        card_sha256=card.sha256,
        corpus=PlannedCorpus(
            name=corpus_name,
            sha256=corpus.sha256,
            items=tuple((item.id, item.cluster) for item in corpus.items),
        ),
        reference=_arm(quality.reference or Answers(), candidate),
        candidate=candidate,
        harmed=_arm(quality.harmed or Answers(), candidate),
        tokenizer_sha256=digests[0],
        chat_template_sha256=digests[1],
        decoding=_decoding(quality.decoding or model.Decoding()),
        metrics=tuple(_metric(metric) for metric in quality.metrics),
        alpha=quality.alpha or ALPHA,
        power=quality.power or POWER,
        discordant_share=quality.discordant_share or DISCORDANT_SHARE,
        length_band=(quality.length.least, quality.length.most) if quality.length else None,
    )


def thresholds(metric: PlannedMetric) -> str:
    """The thresholds as a record repeats them."""
    return threshold_text(metric.min, metric.max_regression)


def _decoding(written: model.Decoding) -> Decoding:
    stated = {"max_tokens": written.max_tokens, "temperature": written.temperature, "top_p": written.top_p}
    known = {key: value for key, value in stated.items() if value is not None}
    return msgspec.convert({"stop": written.stop, **known}, Decoding)


def _problems(quality: Quality, candidate: Answering) -> Iterator[tuple[str, Message]]:
    needed: tuple[tuple[str, object, str], ...] = (
        ("corpus", quality.corpus, "eval/corpus.jsonl"),
        ("metrics", quality.metrics, "[{name: exact_match, max_regression: 0.02}]"),
        ("reference", quality.reference, "{weights: bf16}"),
        ("harmed", quality.harmed, "{weights: q2_k}"),
        ("decoding.max_tokens", quality.decoding and quality.decoding.max_tokens, "256"),
    )
    for field, value, example in needed:
        if not value:
            yield f"quality.{field.partition('.')[0]}", NOT_STATED(field=f"quality.{field}", example=example)
    for index, metric in enumerate(quality.metrics):
        if kind_of(metric.name, metric.kind) is None:
            yield f"quality.metrics[{index}].name", NO_KIND(metric=metric.name)
        elif metric.min is None and metric.max_regression is None:
            yield f"quality.metrics[{index}].name", NO_THRESHOLD(metric=metric.name)
    kinds = {metric.name: kind_of(metric.name, metric.kind) for metric in quality.metrics}
    if kinds and all(kind in ALARMS for kind in kinds.values()):
        yield "quality.metrics", ONLY_ALARMS(metrics=tuple(kinds))
    for name in ("reference", "harmed"):
        stated = getattr(quality, name)
        if stated is not None and _arm(stated, candidate) == candidate:
            yield f"quality.{name}", SAME(arm=name)


def _arm(stated: Answers, candidate: Answering) -> Answering:
    """What the card says of an arm; what it leaves out is as in the candidate, but for what goes with the change."""
    is_other_engine = stated.engine not in (None, candidate.engine)
    changed = {
        "model": stated.model,
        "revision": stated.revision,
        "weight_format": stated.weights,
        "kv_format": stated.cache,
        "engine": stated.engine,
        "engine_version": stated.version,
        "configuration": stated.configuration,
    }
    arm = msgspec.structs.replace(candidate, **{key: value for key, value in changed.items() if value is not None})
    if stated.model is not None and stated.revision is None:
        arm = msgspec.structs.replace(arm, revision=None)
    if is_other_engine:
        arm = msgspec.structs.replace(arm, engine_version=stated.version, configuration=stated.configuration)
    return arm


def _metric(metric: Metric) -> PlannedMetric:
    kind = kind_of(metric.name, metric.kind)
    return msgspec.convert(
        {
            "name": metric.name,
            "kind": kind,
            "min": metric.min,
            "max_regression": metric.max_regression,
            "reason": metric.reason,
            "ignore": metric.ignore,
            "tolerance": metric.tolerance or Decimal(0),
            "relative_tolerance": metric.relative_tolerance or Decimal(0),
            "pattern": metric.pattern,
        },
        PlannedMetric,
    )
