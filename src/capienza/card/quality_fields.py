"""The fields of `quality`."""

from __future__ import annotations

from decimal import Decimal

from capienza.card import quality_model as model
from capienza.card.field import Field
from capienza.card.kinds import PROSE, Kind, choice, number, text, whole
from capienza.card.problems import Refused, Value, closest, shown
from capienza.errors import template
from capienza.yamlmarks import Node

KINDS = ("exact_match", "choice", "numeric", "regex", "json_schema", "chrf", "rouge_l", "logprob", "kl", "same_top")
"""What can be counted in an answer; those of `quality.plan`, which a card need not load."""
ALARM_KINDS = ("kl", "same_top")
"""Those that compare distributions, not answers: they may raise an alarm, and admit nothing."""
IGNORABLE = ("case", "punctuation", "articles")
_MOST_STOPS = 16

NOT_TEXTS = template(
    "card.not-a-list-of-texts",
    "expected a list of 1 to {most} texts, got {found}",
    'Write a list such as ["###", "User:"].',
)
NOT_IGNORABLE = template(
    "card.not-ignorable", "expected a list of {accepted}, got {found}", "Write a list such as [case, punctuation]."
)


def _texts(value: Value) -> tuple[str, ...]:
    items = _items(value)
    if not 0 < len(items) <= _MOST_STOPS or not all(isinstance(item, str) and 0 < len(item) <= 200 for item in items):
        raise Refused(NOT_TEXTS(most=_MOST_STOPS, found=shown(value)))
    return tuple(str(item) for item in items)


def _ignored(value: Value) -> tuple[str, ...]:
    items = _items(value)
    wrong = next((item for item in items if item not in IGNORABLE), None)
    if not items or wrong is not None or len(set(items)) < len(items):
        near = closest(wrong[:60], IGNORABLE) if isinstance(wrong, str) else None
        raise Refused(NOT_IGNORABLE(accepted=IGNORABLE, found=shown(value)), near)
    return tuple(str(item) for item in items)


def _items(value: Value) -> list[object]:
    items = value if isinstance(value, list) else [value]
    return [item.value if isinstance(item, Node) else item for item in items]


_SIGNED = number(Decimal(-(10**12)), Decimal(10**12))
_UNSIGNED = number(Decimal(0), Decimal(10**12))
_SHARE = number(Decimal("0.0001"), Decimal(1))
_ALPHA = number(Decimal("0.0001"), Decimal("0.2"))
_POWER = number(Decimal("0.5"), Decimal("0.999"))
_RATIO = number(Decimal("0.01"), Decimal(100))
_TEXTS = Kind(
    text="list of texts",
    schema={"anyOf": [{"type": "string", "minLength": 1, "maxLength": 200}, {"type": "array", "minItems": 1,
            "maxItems": _MOST_STOPS, "items": {"type": "string", "minLength": 1, "maxLength": 200}}]},
    convert=_texts,
)  # fmt: skip
_IGNORED = Kind(
    text=f"list of {', '.join(IGNORABLE)}",
    schema={"anyOf": [{"enum": list(IGNORABLE)}, {"type": "array", "minItems": 1, "uniqueItems": True,
            "items": {"enum": list(IGNORABLE)}}]},
    convert=_ignored,
)  # fmt: skip


def _mapping(build: type) -> Kind:
    return Kind(text="keys and values", build=build)


def _arm(name: str, description: str, example: str) -> tuple[Field, ...]:
    path = f"quality.{name}"
    return (
        Field(path, _mapping(model.Answers), description, example),
        Field(f"{path}.model", text(), "Its model, where it is another one.", "Qwen/Qwen3-8B"),
        Field(f"{path}.revision", text(), "The commit of its model.", "9c925d64d72725edaf899c6cb9c377fd0709d9c5"),
        Field(f"{path}.weights", text(), "The number format of its weights.", "bf16"),
        Field(f"{path}.cache", text(), "The format of its cache.", "bf16"),
        Field(f"{path}.engine", text(), "The program that runs it.", "llama.cpp"),
        Field(f"{path}.version", text(), "The version of that program, in quotes.", '"0.11.2"'),
        Field(f"{path}.configuration", text(2000), "Its options, as a record writes them.", "defaults"),
    )


QUALITY_FIELDS: tuple[Field, ...] = (
    Field(
        "quality",
        _mapping(model.Quality),
        "How it is judged whether the outputs are good enough.",
        "{corpus: eval/corpus.jsonl, metrics: [{name: exact_match, min: 0.82}]}",
        none=True,
    ),
    Field("quality.corpus", text(4000), "The frozen corpus, relative to the folder of the card.", "eval/corpus.jsonl"),
    Field(
        "quality.metrics",
        Kind(text="list of metrics", build=model.Metric, many=True),
        "The metrics, with thresholds fixed before looking.",
        "[{name: exact_match, min: 0.82, max_regression: 0.01}]",
    ),
    Field("quality.metrics.name", text(), "The name of the metric.", "exact_match", required=True),
    Field(
        "quality.metrics.kind",
        choice(*KINDS),
        "What is counted, where the name does not say it. exact_match, numeric, chrf and rouge_l need an expected "
        "answer of each item, choice also its choices, json_schema its schema, regex a pattern here; logprob, kl and "
        "same_top need figures that a command hands over.",
        "exact_match",
    ),
    Field(
        "quality.metrics.min",
        _SIGNED,
        "The least that the candidate must reach by itself; not judged if left out.",
        "0.82",
    ),
    Field(
        "quality.metrics.max_regression",
        _UNSIGNED,
        "The most it may lose against the reference, more than 0 (of a share, less than 1); not judged if left out. "
        "Of kl: the largest divergence.",
        "0.01",
    ),
    Field("quality.metrics.reason", PROSE, "Why these thresholds.", "one answer in a hundred is checked by hand"),
    Field(
        "quality.metrics.ignore",
        _IGNORED,
        "What exact_match does not look at; spaces at the ends never count.",
        "[case, punctuation]",
    ),
    Field("quality.metrics.tolerance", _UNSIGNED, "How far numeric may be off; 0 if left out.", "0.5"),
    Field(
        "quality.metrics.relative_tolerance",
        _UNSIGNED,
        "How far numeric may be off, as a share; 0 if left out.",
        "0.001",
    ),
    Field("quality.metrics.pattern", text(1000), "The regular expression that regex looks for.", '"^(yes|no)$"'),
    *_arm("reference", "What the candidate is compared with; what is left out is as in the card.", "{weights: bf16}"),
    *_arm("harmed", "A candidate that is harmed on purpose and must fail, so that the test can.", "{weights: q2_k}"),
    Field(
        "quality.decoding",
        _mapping(model.Decoding),
        "How tokens are chosen, the same for every arm.",
        "{max_tokens: 256, temperature: 0}",
    ),
    Field("quality.decoding.max_tokens", whole(1, 10**6), "The most tokens of one answer.", "256"),
    Field(
        "quality.decoding.temperature",
        number(Decimal(0), Decimal(5)),
        "How random the choice is; 0 takes the likeliest token.",
        "0",
    ),
    Field("quality.decoding.top_p", _SHARE, "Only the likeliest tokens that make up this share.", "1"),
    Field("quality.decoding.stop", _TEXTS, "Texts at which an answer ends.", '["###"]'),
    Field(
        "quality.length",
        _mapping(model.LengthBand),
        "How much shorter or longer outputs may be, as ratios to the reference's.",
        "{least: 0.8, most: 1.25}",
    ),
    Field("quality.length.least", _RATIO, "The least ratio.", "0.8", required=True),
    Field("quality.length.most", _RATIO, "The largest ratio.", "1.25", required=True),
    Field("quality.alpha", _ALPHA, "One-sided error rate of each end of an interval; 0.025 if left out.", "0.025"),
    Field("quality.power", _POWER, "The chance of a conclusion that the corpus should give; 0.9 if left out.", "0.9"),
    Field(
        "quality.discordant_share",
        _SHARE,
        "Share of items on which reference and candidate are expected to differ; 0.05 if left out.",
        "0.05",
    ),
    Field("quality.tokenizer", text(4000), "The file of the tokenizer, for its digest.", "model/tokenizer.json"),
    Field(
        "quality.chat_template", text(4000), "The chat template's file, for its digest.", "model/chat_template.jinja"
    ),
)
