"""What a corpus can show, said before any GPU hour is spent: power, items needed, and what would spoil it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import msgspec

from capienza.errors import InputError, InputErrors, Message, Place, shortened, template
from capienza.quality.clusters import FEWEST_CLUSTERS
from capienza.quality.corpus import KEYS, UNREAD_KEYS, Corpus, Item
from capienza.quality.metrics import structure
from capienza.quality.metrics.words import last_number
from capienza.quality.plan import BINARY, PlannedMetric, QualityPlan, Sizing
from capienza.quality.power import MOST_ITEMS, needed, power

KEYED = ("exact_match", "choice", "numeric", "chrf", "rouge_l")
"""Metrics that compare with an expected answer."""
SHARES = (*BINARY, "chrf", "rouge_l")
"""Metrics whose mean lies between 0 and 1."""
_MOST_PROBLEMS = 20
_WORD = re.compile("[a-z0-9]")

NO_EXPECTED = template(
    "quality.item-without-expected",
    "item {id} has no {key}, which the metric {metric} needs",
    "add it, or leave the item out before freezing",
)
NOT_A_LABEL = template(
    "quality.expected-not-a-choice", "item {id} expects {found}, which is none of its choices", "correct one of them"
)
NOT_A_NUMBER = template(
    "quality.expected-not-a-number", "item {id} expects {found}, which holds no number", "correct it"
)
NO_WORD = template(
    "quality.expected-without-words",
    "item {id} expects {found}, in which rouge_l sees no word: it reads the letters a to z and digits alone",
    "take chrf for other alphabets",
)
CANNOT_CONCLUDE = template(
    "quality.cannot-conclude",
    "{metric}: this corpus cannot conclude at a margin of {margin}: {items} items give a power of {power} where "
    "reference and candidate differ on {share} of them; {needed} are needed for {target}",
    "take more items, or a wider margin with its reason, before freezing",
)
NEVER_CONCLUDES = template(
    "quality.never-concludes",
    "{metric}: a margin of {margin} is met by no number of items",
    "state the most that it may lose, more than 0",
)
OUT_OF_REACH = template(
    "quality.margin-out-of-reach",
    "{metric}: a margin of {margin} needs more than {most} items",
    "take a wider margin with its reason, before freezing",
)
TOO_WIDE = template(
    "quality.margin-too-wide",
    "{metric}: a margin of {margin} is met by any answers at all, for a share loses at most 1",
    "state the most that it may lose, less than 1",
)
FEW_DOCUMENTS = template(
    "quality.few-documents",
    "{metric}: {documents} source documents; below {fewest} no interval is trusted",
    "take items from more documents",
)
CLUSTERED = template(
    "quality.clustered",
    "{items} items come from {documents} documents: items of one document may share a fate, and then count as fewer",
    "power is stated for independent items: take more documents rather than more items of each",
)
NO_REASON = template(
    "quality.margin-without-reason", "{metric}: the thresholds have no reason", "write one under reason"
)
RANDOM = template(
    "quality.random-decoding",
    "a temperature of {temperature} draws at random: two runs of the same model differ, and the control shows how much",
)
SAME_PROMPTS = template(
    "quality.same-prompts", "{count} items have a prompt that another one has too, and are not independent of it"
)
NOT_KNOWN = template(
    "quality.digest-not-known",
    "the digest of the {what} is not known, so a changed one would not be noticed",
    "name its file under quality.{key}",
)


class Lint(msgspec.Struct, frozen=True, kw_only=True):
    """What each metric can show, why the comparison would not conclude, and what else was noticed."""

    sizing: tuple[Sizing, ...]
    problems: tuple[Message, ...]
    remarks: tuple[Message, ...]


def lint(plan: QualityPlan, corpus: Corpus) -> Lint:
    """Look at a plan and its corpus before outputs exist.

    Raises:
        InputErrors: Items that a metric of the plan cannot judge, with their ids.
        MissingPartError: A schema is to be checked and jsonschema is not installed.
    """
    wrong = []
    for item in corpus.items:
        for metric in plan.metrics:
            wrong += [InputError(message, Place(corpus.file)) for message in _unjudged(metric, item, corpus)]
        if len(wrong) >= _MOST_PROBLEMS:
            break
    if wrong:
        raise InputErrors(wrong)
    sizing = tuple(_sized(plan, metric, len(corpus.items)) for metric in plan.metrics)
    return Lint(
        sizing=sizing,
        problems=tuple(_problems(plan, corpus, sizing)),
        remarks=tuple(_remarks(plan, corpus)),
    )


def _unjudged(metric: PlannedMetric, item: Item, corpus: Corpus) -> Iterator[Message]:
    identity = shortened(item.id, 60)
    if metric.kind in KEYED and not item.expected:
        yield NO_EXPECTED(id=identity, key="expected", metric=metric.name)
        return
    if metric.kind == "choice":
        labels = {label.strip().casefold() for label in item.choices}
        other = [each for each in item.expected if each.strip().casefold() not in labels]
        if not item.choices:
            yield NO_EXPECTED(id=identity, key="choices", metric=metric.name)
        elif other:
            yield NOT_A_LABEL(id=identity, found=shortened(other[0], 60))
    if metric.kind == "numeric":
        for each in item.expected:
            if last_number(each) is None:
                yield NOT_A_NUMBER(id=identity, found=shortened(each, 60))
    if metric.kind == "rouge_l":
        for each in item.expected:
            if not _WORD.search(each.lower()):
                yield NO_WORD(id=identity, found=shortened(each, 60))
    if metric.kind == "json_schema":
        if item.schema is None:
            yield NO_EXPECTED(id=identity, key="schema", metric=metric.name)
        else:
            structure.check_schema(item.schema, item.id, Place(corpus.file))


def _sized(plan: QualityPlan, metric: PlannedMetric, count: int) -> Sizing:
    """Power and needed items of a right-or-wrong metric against its margin; of others nothing is known beforehand."""
    if metric.kind not in BINARY or metric.max_regression is None:
        return Sizing(metric=metric.name, power=None, needed=None)
    share, margin = float(plan.discordant_share), float(metric.max_regression)
    if not 0 < margin < 1:
        return Sizing(metric=metric.name, power=0.0 if margin <= 0 else None, needed=None)
    found = power(count, share, margin, float(plan.alpha))
    return Sizing(
        metric=metric.name,
        power=round(found, 4),
        needed=needed(share, margin, float(plan.alpha), float(plan.power)),
    )


def _problems(plan: QualityPlan, corpus: Corpus, sizing: tuple[Sizing, ...]) -> Iterator[Message]:
    count = len(corpus.items)
    for metric, found in zip(plan.metrics, sizing, strict=True):
        margin = metric.max_regression
        if metric.kind in SHARES and margin is not None and margin <= 0:
            yield NEVER_CONCLUDES(metric=metric.name, margin=f"{margin:f}")
        elif metric.kind in SHARES and margin is not None and margin >= 1:
            yield TOO_WIDE(metric=metric.name, margin=f"{margin:f}")
        elif found.power is not None and found.needed is None and found.power < plan.power:
            yield OUT_OF_REACH(metric=metric.name, margin=f"{margin:f}", most=MOST_ITEMS)
        elif found.power is not None and found.power < plan.power:
            yield CANNOT_CONCLUDE(
                metric=metric.name,
                margin=f"{margin:f}",
                items=count,
                power=f"{found.power:.2f}",
                share=f"{plan.discordant_share:f}",
                needed=found.needed,
                target=f"{plan.power:f}",
            )
        if metric.kind not in BINARY and corpus.clusters < FEWEST_CLUSTERS:
            yield FEW_DOCUMENTS(metric=metric.name, documents=corpus.clusters, fewest=FEWEST_CLUSTERS)


def _remarks(plan: QualityPlan, corpus: Corpus) -> Iterator[Message]:
    count = len(corpus.items)
    if corpus.clusters < count:
        yield CLUSTERED(items=count, documents=corpus.clusters)
    for metric in plan.metrics:
        if not metric.reason:
            yield NO_REASON(metric=metric.name)
    if plan.decoding.temperature > 0:
        yield RANDOM(temperature=f"{plan.decoding.temperature:f}")
    prompts = Counter(item.prompt or str(item.messages) for item in corpus.items)
    again = sum(times for times in prompts.values() if times > 1)
    if again:
        yield SAME_PROMPTS(count=again)
    if corpus.unread_keys:
        yield UNREAD_KEYS(keys=corpus.unread_keys, accepted=KEYS)
    if plan.tokenizer_sha256 is None:
        yield NOT_KNOWN(what="tokenizer", key="tokenizer")
    if plan.chat_template_sha256 is None and any(item.messages for item in corpus.items):
        yield NOT_KNOWN(what="chat template", key="chat_template")
