"""Every field of a card, once: the walk of the loader, the JSON Schema, the reference and `card new` all follow it.

A path names a field by its keys; fields of the items of a list stand under the list's own path. Examples are YAML.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec

from capienza.card import model
from capienza.card.kinds import MODEL_REFERENCE, ONE_VALUE, PROSE, Kind, choice, number, text, whole
from capienza.card.moments import MOMENT, ZONE, Moment, end_of, start_of
from capienza.card.quantities import MONEY, SIZE

VERSION = 1
MAX_TOKENS = 10**9
MAX_COUNT = 10**6

ROOT = ""
"""The path of the card itself."""


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One field. `attribute` is its name in the struct when that differs from the key; `none` says it may be `none`."""

    path: str
    kind: Kind
    description: str
    example: str
    required: bool = False
    none: bool = False
    attribute: str = ""

    @property
    def key(self) -> str:
        """The last key of the path."""
        return self.path.rpartition(".")[2]

    @property
    def parent(self) -> str:
        """The path of the mapping that holds it."""
        return self.path.rpartition(".")[0]

    @property
    def type_text(self) -> str:
        """What may be written, for the reference."""
        return f"{self.kind.text}; or none" if self.none else self.kind.text


def _card(capienza: int, **fields: Any) -> model.Card:  # noqa: ARG001 - the version is checked and not kept
    return model.Card(**fields)


def _token_count(prompt: int, output: int) -> model.TokenCount:
    return model.TokenCount(total=prompt + output, prompt=prompt, output=output)


def _calendar(
    timezone: str | None = None,
    start: Moment | None = None,
    deadline: Moment | None = None,
    steps: tuple[model.Step, ...] = (),
) -> model.Calendar:
    return model.Calendar(
        timezone=timezone,
        start=start_of(start, timezone) if start else None,
        deadline=end_of(deadline, timezone) if deadline else None,
        steps=steps,
    )


def _mapping(build: Any) -> Kind:
    return Kind(text="keys and values", build=build)


_TOTAL = whole(1, MAX_TOKENS)
_TOKENS = Kind(
    text="whole number of tokens (prompt + output), or prompt and output apart",
    schema=_TOTAL.schema,
    convert=lambda value: model.TokenCount(total=_TOTAL.convert(value)) if _TOTAL.convert else None,
    build=_token_count,
)
_COUNT = whole(1, MAX_COUNT)
_OPTIONS = Kind(text="option names and values", build=dict, rest_kind=ONE_VALUE)
_PREFERENCES = Kind(text="list of names and values", build=dict, many=True, rest_kind=text())
_SIGNED = number(Decimal(-(10**12)), Decimal(10**12))
_UNSIGNED = number(Decimal(0), Decimal(10**12))


def _length(path: str, description: str, example: str) -> tuple[Field, ...]:
    """A length in tokens: one number, or prompt and output."""
    return (
        Field(path=path, kind=_TOKENS, description=description, example=example),
        Field(
            path=f"{path}.prompt",
            kind=whole(1, MAX_TOKENS),
            required=True,
            description="Tokens of one sequence that are given to the model.",
            example="30720",
        ),
        Field(
            path=f"{path}.output",
            kind=whole(0, MAX_TOKENS),
            required=True,
            description="Tokens of one sequence that the model writes.",
            example="2048",
        ),
    )


def _amount(path: str, description: str, example: str, reason: str) -> tuple[Field, ...]:
    """A chosen amount of memory and its reason."""
    return (
        Field(
            path=path,
            kind=_mapping(model.Reasoned),
            description=description,
            example=f"{{amount: {example}, reason: {reason}}}",
        ),
        Field(
            path=f"{path}.amount",
            kind=SIZE,
            required=True,
            attribute="amount_bytes",
            description="How much memory of each GPU.",
            example=example,
        ),
        Field(
            path=f"{path}.reason",
            kind=PROSE,
            description="Why this amount: one without a reason is no more reliable than a rounded figure.",
            example=reason,
        ),
    )


def _parallel(name: str, description: str) -> Field:
    return Field(path=f"placement.{name}", kind=_COUNT, description=description, example="1")


FIELDS: tuple[Field, ...] = (
    Field(
        path="capienza",
        kind=whole(VERSION, VERSION),
        required=True,
        description="The version of this file's format.",
        example="1",
    ),
    Field(
        path="name",
        kind=text(),
        required=True,
        description="A short name for this workload, shown in every report.",
        example="support-assistant",
    ),
    Field(
        path="model",
        kind=_mapping(model.ModelRef),
        required=True,
        description="The model: a Hub id, a local path, or a bare number of parameters.",
        example="{id: Qwen/Qwen3-8B}",
    ),
    Field(
        path="model.id",
        kind=MODEL_REFERENCE,
        description="The model on the Hub: organisation and name.",
        example="Qwen/Qwen3-8B",
    ),
    Field(
        path="model.revision",
        kind=text(),
        description="The commit, tag or branch of the model; only a commit always means the same files.",
        example="9c925d64d72725edaf899c6cb9c377fd0709d9c5",
    ),
    Field(
        path="model.path",
        kind=text(4000),
        description="A folder with config.json, or a .gguf file, relative to the folder of the card.",
        example="./model.gguf",
    ),
    Field(
        path="model.parameters",
        kind=whole(1, 10**15),
        description="Number of parameters, when nothing else of the model is known; bits goes with it.",
        example="7e9",
    ),
    Field(
        path="model.bits",
        kind=number(Decimal("0.1"), Decimal(64)),
        description="Bits of each parameter, beside parameters.",
        example="16",
    ),
    Field(
        path="task",
        kind=choice("inference", "fine-tuning"),
        required=True,
        description="What is done with the model.",
        example="inference",
    ),
    Field(
        path="weights",
        kind=_mapping(model.Weights),
        description="How the weights are held in GPU memory.",
        example="{format: bf16}",
    ),
    Field(
        path="weights.format",
        kind=text(),
        description="The number format of the weights in memory; without it, the one they are stored in.",
        example="bf16",
    ),
    Field(
        path="engine",
        kind=_mapping(model.Engine),
        description="The program that runs the model.",
        example='{name: vllm, version: "0.11.2"}',
    ),
    Field(
        path="engine.name",
        kind=text(),
        required=True,
        description="The name of the program.",
        example="vllm",
    ),
    Field(
        path="engine.version",
        kind=text(),
        description="Its version, in quotes.",
        example='"0.11.2"',
    ),
    Field(
        path="engine.options",
        kind=_OPTIONS,
        description="Its options that change memory, by the program's own names.",
        example="{gpu_memory_utilization: 0.90}",
    ),
    Field(
        path="tokens",
        kind=_mapping(model.Tokens),
        description="The lengths of one sequence, in tokens.",
        example="{short: 512, usual: 4096, required: {prompt: 30720, output: 2048}}",
    ),
    *_length("tokens.short", "A short length, for a first trial.", "512"),
    *_length("tokens.usual", "The length of everyday use.", "4096"),
    *_length(
        "tokens.required",
        "The length that must work: every verdict is about it.",
        "{prompt: 30720, output: 2048}",
    ),
    Field(
        path="concurrency",
        kind=_COUNT,
        description="Sequences served at the same time (inference).",
        example="8",
    ),
    Field(
        path="microbatch",
        kind=_COUNT,
        description="Sequences in one forward and backward pass on each GPU (fine-tuning).",
        example="1",
    ),
    Field(
        path="accumulation",
        kind=_COUNT,
        description="Microbatches before each optimizer step (fine-tuning).",
        example="16",
    ),
    Field(
        path="training",
        kind=Kind(text="keys and values", build=model.Training, rest="options", rest_kind=ONE_VALUE),
        description="The fine-tuning recipe; other options may be added by the program's own names.",
        example="{method: lora, rank: 16, optimizer: adamw}",
    ),
    Field(
        path="training.method",
        kind=text(),
        description="How the model is trained.",
        example="lora",
    ),
    Field(
        path="training.rank",
        kind=_COUNT,
        description="Rank of the adapters.",
        example="16",
    ),
    Field(
        path="training.optimizer",
        kind=text(),
        description="The optimizer.",
        example="adamw",
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
    Field(
        path="quality",
        kind=_mapping(model.Quality),
        none=True,
        description="How it is judged whether the outputs are good enough.",
        example="{corpus: eval/corpus.jsonl, metrics: [{name: exact_match, min: 0.82}]}",
    ),
    Field(
        path="quality.corpus",
        kind=text(4000),
        description="The frozen corpus, relative to the folder of the card.",
        example="eval/corpus.jsonl",
    ),
    Field(
        path="quality.metrics",
        kind=Kind(text="list of metrics", build=model.Metric, many=True),
        description="The metrics, with thresholds fixed before looking.",
        example="[{name: exact_match, min: 0.82, max_regression: 0.01}]",
    ),
    Field(
        path="quality.metrics.name",
        kind=text(),
        required=True,
        description="The name of the metric.",
        example="exact_match",
    ),
    Field(
        path="quality.metrics.min",
        kind=_SIGNED,
        description="The least value that is acceptable.",
        example="0.82",
    ),
    Field(
        path="quality.metrics.max_regression",
        kind=_UNSIGNED,
        description="The most it may lose against the reference.",
        example="0.01",
    ),
    Field(
        path="placement",
        kind=_mapping(model.Placement),
        none=True,
        description="How the model is divided among GPUs.",
        example="{gpus: 1, tensor_parallel: 1}",
    ),
    Field(
        path="placement.gpus",
        kind=_COUNT,
        description="GPUs that one copy of the model needs.",
        example="1",
    ),
    _parallel("tensor_parallel", "Parts that each layer is divided into."),
    _parallel("pipeline_parallel", "Groups that the layers are divided into."),
    _parallel("expert_parallel", "Groups that the experts are divided into."),
    _parallel("data_parallel", "Copies of the model, each on its own part of the load."),
    Field(
        path="host",
        kind=_mapping(model.Host),
        none=True,
        description="What the server around the GPUs must have.",
        example="{ram: 64 GiB, storage: 200 GB, interconnect: none, managed_application: none, others_use: 0 GiB}",
    ),
    Field(
        path="host.ram",
        kind=SIZE,
        none=True,
        attribute="ram_bytes",
        description="Main memory needed.",
        example="64 GiB",
    ),
    Field(
        path="host.storage",
        kind=SIZE,
        none=True,
        attribute="storage_bytes",
        description="Disk space needed.",
        example="200 GB",
    ),
    Field(
        path="host.interconnect",
        kind=text(),
        none=True,
        description="The link needed between GPUs.",
        example="nvlink",
    ),
    Field(
        path="host.managed_application",
        kind=text(),
        none=True,
        description="An application that the provider must offer ready to use.",
        example="jupyter",
    ),
    Field(
        path="host.others_use",
        kind=SIZE,
        attribute="others_use_bytes",
        description="Memory of each GPU that other programs use.",
        example="0 GiB",
    ),
    Field(
        path="budget",
        kind=_mapping(model.Budget),
        none=True,
        description="What may be spent.",
        example="{cap: 300 USD}",
    ),
    Field(
        path="budget.cap",
        kind=MONEY,
        required=True,
        description="The most that the whole package may cost.",
        example="300 USD",
    ),
    Field(
        path="calendar",
        kind=_mapping(_calendar),
        none=True,
        description="When the work may start and must end.",
        example="{timezone: Europe/Rome, start: 2026-12-07, deadline: 2026-12-12}",
    ),
    Field(
        path="calendar.timezone",
        kind=ZONE,
        description="The time zone of the bare dates of this card.",
        example="Europe/Rome",
    ),
    Field(
        path="calendar.start",
        kind=MOMENT,
        description="The first moment the GPUs can be used: a day counts from its beginning.",
        example="2026-12-07",
    ),
    Field(
        path="calendar.deadline",
        kind=MOMENT,
        description="The moment everything must be done: a day counts to its end.",
        example="2026-12-12",
    ),
    Field(
        path="calendar.steps",
        kind=Kind(text="list of steps", build=model.Step, many=True),
        description="The steps of the work, one after the other.",
        example="[{name: run, hours: 30, basis: hypothetical}]",
    ),
    Field(
        path="calendar.steps.name",
        kind=text(),
        required=True,
        description="The name of the step.",
        example="run",
    ),
    Field(
        path="calendar.steps.hours",
        kind=number(Decimal("0.001"), Decimal(100_000)),
        required=True,
        description="How many hours it takes.",
        example="30",
    ),
    Field(
        path="calendar.steps.basis",
        kind=choice("hypothetical", "measured", "documented"),
        description="Where that duration comes from; a hypothetical one confirms nothing.",
        example="hypothetical",
    ),
    Field(
        path="preferences",
        kind=_PREFERENCES,
        description="Wishes that only decide between equals, the most important first.",
        example="[{region: eu}]",
    ),
)

CARD = Field(
    path=ROOT, kind=_mapping(_card), description="One workload: what must run, and what it may cost.", example=""
)


def _children() -> dict[str, dict[str, Field]]:
    table: dict[str, dict[str, Field]] = {}
    for field in FIELDS:
        table.setdefault(field.parent, {})[field.key] = field
    return table


CHILDREN: dict[str, dict[str, Field]] = _children()
"""The fields of each mapping, by its path and then by key."""


def fields() -> tuple[Field, ...]:
    """Every field of a card with its description and example, in the order a card is written."""
    return FIELDS
