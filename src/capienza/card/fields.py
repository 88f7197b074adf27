"""Every field of a card, once: the walk of the loader, the JSON Schema, the reference and `card new` all follow it.

A path names a field by its keys; fields of the items of a list stand under the list's own path. Examples are YAML.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from capienza.card import model
from capienza.card.field import Field
from capienza.card.kinds import (
    MODEL_REFERENCE,
    ONE_VALUE,
    PROSE,
    WEIGHT_FORMAT,
    Kind,
    choice,
    number,
    read_whole,
    text,
    whole,
)
from capienza.card.moments import MOMENT, ZONE, Moment, end_of, start_of
from capienza.card.quality_fields import QUALITY_FIELDS
from capienza.card.quantities import DURATION, MONEY, PERCENTAGE, RECORD_ID, SIZE, WORK
from capienza.card.ranking import WITHIN
from capienza.card.training_fields import TRAINING_FIELDS

VERSION = 1
MAX_TOKENS = 10**9
MAX_COUNT = 10**6
MAX_GPUS = 1024

ROOT = ""
"""The path of the card itself."""


def _card(capienza: int, **fields: Any) -> model.Card:  # noqa: ARG001 - the version is checked and not kept
    return model.Card(**fields)


def _token_count(prompt: int, output: int) -> model.TokenCount:
    return model.TokenCount(total=prompt + output, prompt=prompt, output=output)


def _calendar(
    timezone: str | None = None,
    start: Moment | None = None,
    deadline: Moment | None = None,
    **fields: Any,
) -> model.Calendar:
    return model.Calendar(
        timezone=timezone,
        start=start_of(start, timezone) if start else None,
        deadline=end_of(deadline, timezone) if deadline else None,
        **fields,
    )


def _mapping(build: Any) -> Kind:
    return Kind(text="keys and values", build=build)


_TOKENS = Kind(
    text="whole number of tokens (prompt + output), or prompt and output apart",
    schema=whole(1, MAX_TOKENS).schema,
    convert=lambda value: model.TokenCount(total=read_whole(value, 1, MAX_TOKENS)),
    build=_token_count,
)
_COUNT = whole(1, MAX_COUNT)
_GPUS = whole(1, MAX_GPUS)
_OPTIONS = Kind(text="option names and values", build=dict, rest_kind=ONE_VALUE)
_PREFERENCES = Kind(text="list of names and values", build=dict, many=True, rest_kind=text())
_SIGNED = number(Decimal(-(10**12)), Decimal(10**12))
_HOURS = number(Decimal("0.001"), Decimal(100_000))
_UNSIGNED = number(Decimal(0), Decimal(10**12))


def _length(path: str, description: str, example: str) -> tuple[Field, ...]:
    """A length in tokens: one number, or prompt and output."""
    return (
        Field(path, _TOKENS, description, example),
        Field(
            f"{path}.prompt",
            whole(1, MAX_TOKENS),
            "Tokens of one sequence that are given to the model.",
            "30720",
            required=True,
        ),
        Field(
            f"{path}.output",
            whole(0, MAX_TOKENS),
            "Tokens of one sequence that the model writes.",
            "2048",
            required=True,
        ),
    )


def _amount(path: str, description: str, example: str, reason: str) -> tuple[Field, ...]:
    """A chosen amount of memory and its reason."""
    return (
        Field(path, _mapping(model.Reasoned), description, f"{{amount: {example}, reason: {reason}}}"),
        Field(f"{path}.amount", SIZE, "How much memory of each GPU.", example, required=True, attribute="amount_bytes"),
        Field(
            f"{path}.reason",
            PROSE,
            "Why this amount: one without a reason is no more reliable than a rounded figure.",
            reason,
        ),
    )


def _parallel(name: str, description: str) -> Field:
    return Field(f"placement.{name}", _GPUS, description, "1")


FIELDS: tuple[Field, ...] = (
    Field("capienza", whole(VERSION, VERSION), "The version of this file's format.", "1", required=True),
    Field("name", text(), "A short name for this workload, shown in every report.", "support-assistant", required=True),
    Field(
        "model",
        _mapping(model.ModelRef),
        "The model: a Hub id, a local path, or a bare number of parameters.",
        "{id: Qwen/Qwen3-8B}",
        required=True,
    ),
    Field("model.id", MODEL_REFERENCE, "The model on the Hub: organisation and name.", "Qwen/Qwen3-8B"),
    Field(
        "model.revision",
        text(),
        "The commit, tag or branch of a Hub model; only a commit always means the same files. "
        "For a path, your own name for these files, such as their sha256.",
        "9c925d64d72725edaf899c6cb9c377fd0709d9c5",
    ),
    Field(
        "model.path",
        text(4000),
        "A folder with config.json, or a .gguf file, relative to the folder of the card.",
        "./model.gguf",
    ),
    Field(
        "model.parameters",
        whole(1, 10**15),
        "Number of parameters, when nothing else of the model is known; bits goes with it.",
        "7e9",
    ),
    Field("model.bits", number(Decimal("0.1"), Decimal(64)), "Bits of each parameter, beside parameters.", "16"),
    Field("task", choice("inference", "fine-tuning"), "What is done with the model.", "inference", required=True),
    Field("weights", _mapping(model.Weights), "How the weights are held in GPU memory.", "{format: bf16}"),
    Field(
        "weights.format",
        WEIGHT_FORMAT,
        "The number format of the weights in memory; without it, the one they are stored in.",
        "bf16",
    ),
    Field("engine", _mapping(model.Engine), "The program that runs the model.", '{name: vllm, version: "0.11.2"}'),
    Field("engine.name", text(), "The name of the program.", "vllm", required=True),
    Field("engine.version", text(), "Its version, in quotes.", '"0.11.2"'),
    Field(
        "engine.options",
        _OPTIONS,
        "Its options that change memory, by the program's own names.",
        "{gpu_memory_utilization: 0.90}",
    ),
    Field(
        "tokens",
        _mapping(model.Tokens),
        "The lengths of one sequence, in tokens.",
        "{short: 512, usual: 4096, required: {prompt: 30720, output: 2048}}",
    ),
    *_length("tokens.short", "A short length, for a first trial.", "512"),
    *_length("tokens.usual", "The length of everyday use.", "4096"),
    *_length(
        "tokens.required",
        "The length that must work: every verdict is about it.",
        "{prompt: 30720, output: 2048}",
    ),
    Field("concurrency", _COUNT, "Sequences served at the same time (inference).", "8"),
    Field("microbatch", _COUNT, "Sequences in one forward and backward pass on each GPU (fine-tuning).", "1"),
    Field("accumulation", _COUNT, "Microbatches before each optimizer step (fine-tuning).", "16"),
    *TRAINING_FIELDS,
    Field(
        "allocator",
        text(),
        "Settings of PyTorch's allocator, as the environment variable PYTORCH_CUDA_ALLOC_CONF takes them.",
        "expandable_segments:True",
    ),
    *_amount(
        "reserve",
        "A first guess for everything that is not weights, chosen by you; it enters no computed peak.",
        "6 GiB",
        "first hypothesis",
    ),
    *_amount(
        "margin",
        "Memory that must stay free above the peak.",
        "2 GiB",
        "spread of three observed runs",
    ),
    *QUALITY_FIELDS,
    Field(
        "placement",
        _mapping(model.Placement),
        "How the model is divided among GPUs.",
        "{gpus: 1, tensor_parallel: 1}",
        none=True,
    ),
    Field("placement.gpus", _GPUS, "GPUs that one copy of the model needs.", "1"),
    _parallel("tensor_parallel", "Parts that each layer is divided into."),
    _parallel("pipeline_parallel", "Groups that the layers are divided into."),
    _parallel("expert_parallel", "Groups that the experts are divided into."),
    _parallel("data_parallel", "Copies of the model, each on its own part of the load."),
    Field(
        "host",
        _mapping(model.Host),
        "What the server around the GPUs must have.",
        "{ram: 64 GiB, storage: 200 GB, interconnect: none, managed_application: none, others_use: 0 GiB}",
        none=True,
    ),
    Field("host.ram", SIZE, "Main memory needed.", "64 GiB", none=True, attribute="ram_bytes"),
    Field("host.storage", SIZE, "Disk space needed.", "200 GB", none=True, attribute="storage_bytes"),
    Field(
        "host.data",
        SIZE,
        "Disk space for what cannot be computed: data sets, container images, caches.",
        "20 GB",
        attribute="data_bytes",
    ),
    Field(
        "host.egress",
        SIZE,
        "What leaves the provider's network in the whole job: outputs, checkpoints, exports.",
        "50 GB",
        none=True,
        attribute="egress_bytes",
    ),
    Field("host.interconnect", text(), "The link needed between GPUs.", "nvlink", none=True),
    Field(
        "host.managed_application",
        text(),
        "An application that the provider must offer ready to use.",
        "jupyter",
        none=True,
    ),
    Field(
        "host.others_use", SIZE, "Memory of each GPU that other programs use.", "0 GiB", attribute="others_use_bytes"
    ),
    Field("budget", _mapping(model.Budget), "What may be spent.", "{cap: 300 USD}", none=True),
    Field("budget.cap", MONEY, "The most that the whole package may cost.", "300 USD", required=True),
    Field(
        "budget.price_age",
        DURATION,
        "How old a price may be that states no end of its own; an older one is to be confirmed.",
        "7 days",
    ),
    Field(
        "calendar",
        _mapping(_calendar),
        "When the work may start and must end.",
        "{timezone: Europe/Rome, start: 2026-12-07, deadline: 2026-12-12}",
        none=True,
    ),
    Field("calendar.timezone", ZONE, "The time zone of the bare dates of this card.", "Europe/Rome"),
    Field(
        "calendar.start",
        MOMENT,
        "The first moment the GPUs can be used: a day counts from its beginning.",
        "2026-12-07",
    ),
    Field("calendar.deadline", MOMENT, "The moment everything must be done: a day counts to its end.", "2026-12-12"),
    Field(
        "calendar.contingency",
        PERCENTAGE,
        "What is added to the planned hours for what nobody foresees; it enters no proved duration.",
        "20 %",
        attribute="contingency_percent",
    ),
    Field(
        "calendar.daily_hours",
        number(Decimal("0.1"), Decimal(24)),
        "Hours of each day in which there is work, in one piece; without it, day and night.",
        "8",
    ),
    Field(
        "calendar.steps",
        Kind(text="list of steps", build=model.Step, many=True),
        "The steps of the work, one after the other.",
        "[{name: run, hours: 30, basis: hypothetical}]",
    ),
    Field("calendar.steps.name", text(), "The name of the step.", "run", required=True),
    Field(
        "calendar.steps.hours",
        _HOURS,
        "How many hours it takes; it may be left out where a record states it, or beside work.",
        "30",
    ),
    Field(
        "calendar.steps.basis",
        choice("hypothetical", "measured", "documented"),
        "Where that duration comes from; a hypothetical one confirms nothing.",
        "hypothetical",
    ),
    Field(
        "calendar.steps.record",
        RECORD_ID,
        "The record that proves it, by its id or the beginning of it; without one, the basis is the card's own word.",
        '"3f6a1c0e9b2d"',
    ),
    Field(
        "calendar.steps.work",
        WORK,
        "What there is to do: divided by the tokens per second of measured runs, it gives the hours.",
        "120e6 tokens",
        attribute="work_tokens",
    ),
    Field(
        "calendar.steps.at_least",
        _mapping(model.LowerBound),
        "A physical lower bound on its time: it can exclude, and confirms nothing.",
        "{hours: 12, reason: 4 TB over the documented link of 1 Gbit/s}",
    ),
    Field("calendar.steps.at_least.hours", _HOURS, "The hours below which it cannot be done.", "12", required=True),
    Field(
        "calendar.steps.at_least.reason",
        PROSE,
        "What makes less impossible: the quantities and where they stand.",
        "4 TB over the documented link of 1 Gbit/s",
        required=True,
    ),
    Field(
        "preferences",
        _PREFERENCES,
        "Wishes that only decide between equals, the most important first.",
        "[{region: eu}]",
    ),
    Field(
        "ranking",
        Kind(text="list of figures", build=model.RankBy, many=True),
        "The order of what can be chosen, figure by figure; without it cost, margin, finish, preferences.",
        "[{by: cost, within: 2 %}, {by: margin, within: 1 GiB}, {by: finish, within: 12 h}, {by: preferences}]",
    ),
    Field("ranking.by", choice(*model.FIGURES), "The figure that is compared.", "cost", required=True),
    Field(
        "ranking.within",
        WITHIN,
        "How far from the best still counts as equal: a share of the cost, a size of the margin, hours of the finish.",
        "2 %",
    ),
)

CARD = Field(ROOT, _mapping(_card), "One workload: what must run, and what it may cost.", "")


def by_parent(fields: Iterable[Field]) -> dict[str, dict[str, Field]]:
    """Fields by the path of their mapping, then by key."""
    table: dict[str, dict[str, Field]] = {}
    for field in fields:
        table.setdefault(field.parent, {})[field.key] = field
    return table


CHILDREN: dict[str, dict[str, Field]] = by_parent(FIELDS)
"""The fields of each mapping, by its path and then by key."""


def fields() -> tuple[Field, ...]:
    """Every field of a card with its description and example, in the order a card is written."""
    return FIELDS
