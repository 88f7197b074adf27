"""The plan of a comparison: everything that could be chosen to please, fixed before any candidate output exists.

A plan is a file whose id is the digest of its content. Outputs carry that id, and every seed is derived from it: what
was made before the plan, or under another one, cannot pass for its outputs.
"""

from __future__ import annotations

import datetime
import hashlib
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from capienza.canon import canonical, digest
from capienza.errors import InputError, Place, VerificationError, template
from capienza.files import write_whole
from capienza.yamlmarks.source import read_bytes

SCHEMA = "capienza.quality-plan/1"
MOST_BYTES = 512 * 2**20
Kind = Literal[
    "exact_match", "choice", "numeric", "regex", "json_schema", "chrf", "rouge_l", "logprob", "kl", "same_top"
]
BINARY: tuple[Kind, ...] = ("exact_match", "choice", "numeric", "regex", "json_schema")
MEASURED: tuple[Kind, ...] = ("chrf", "rouge_l", "logprob")
ALARMS: tuple[Kind, ...] = ("kl", "same_top")
"""Metrics that compare distributions, not answers: they may raise an alarm, and admit nothing."""
Arm = Literal["reference", "reference_again", "candidate", "harmed"]
ARMS: tuple[Arm, ...] = ("reference", "reference_again", "candidate", "harmed")

NOT_A_PLAN = template(
    "quality.not-a-plan", "this is no plan of a comparison: {problem}", "capienza quality freeze CARD writes one"
)
EDITED = template(
    "quality.plan-edited",
    "the content has the digest {found}, and the plan says {stated}: it was changed after it was frozen",
    "take the file again from where it was frozen, or freeze a new plan",
)


class Answering(msgspec.Struct, frozen=True, kw_only=True):
    """What gives the answers of one arm; a field that is None is not stated."""

    model: str | None = None
    revision: str | None = None
    weight_format: str | None = None
    kv_format: str | None = None
    engine: str | None = None
    engine_version: str | None = None
    configuration: str | None = None


class Decoding(msgspec.Struct, frozen=True, kw_only=True):
    """How tokens are chosen, the same for every arm."""

    temperature: Decimal = Decimal(0)
    top_p: Decimal = Decimal(1)
    max_tokens: int = 512
    stop: tuple[str, ...] = ()


class PlannedMetric(msgspec.Struct, frozen=True, kw_only=True):
    """One metric with its thresholds and why they are what they are."""

    name: str
    kind: Kind
    min: Decimal | None = None
    max_regression: Decimal | None = None
    reason: str | None = None
    ignore: tuple[str, ...] = ()
    tolerance: Decimal = Decimal(0)
    relative_tolerance: Decimal = Decimal(0)
    pattern: str | None = None


class PlannedCorpus(msgspec.Struct, frozen=True, kw_only=True):
    """The corpus: its name as the card has it, the digest of its file, and each item's id and source document."""

    name: str
    sha256: str
    items: tuple[tuple[str, str], ...]


class Sizing(msgspec.Struct, frozen=True, kw_only=True):
    """What one metric can show on this corpus: its power at no true difference, and the items that 90 % would need."""

    metric: str
    power: float | None
    needed: int | None


class QualityPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A frozen plan. Rules that every plan has alike are not in it: they are those of this version of the method."""

    schema: str = SCHEMA
    method: int = 1
    name: str
    task: str
    date: Annotated[datetime.datetime, msgspec.Meta(tz=True)]
    card_sha256: str | None = None
    corpus: PlannedCorpus
    reference: Answering
    candidate: Answering
    harmed: Answering
    tokenizer_sha256: str | None = None
    chat_template_sha256: str | None = None
    decoding: Decoding = Decoding()
    metrics: tuple[PlannedMetric, ...]
    alpha: Decimal
    power: Decimal
    discordant_share: Decimal
    length_band: tuple[Decimal, Decimal] | None = None
    sizing: tuple[Sizing, ...] = ()
    id: str = ""


def frozen(plan: QualityPlan) -> QualityPlan:
    """The plan with its id."""
    return msgspec.structs.replace(plan, id=digest(msgspec.structs.replace(plan, id="")))


def write_plan(plan: QualityPlan, path: Path) -> None:
    """Write a frozen plan, whole or not at all. Raises `UnreachableError` when it cannot be written."""
    data = canonical(plan) + b"\n"
    write_whole(path, lambda file: file.write(data))


def read_plan(path: str) -> QualityPlan:
    """The plan of a file.

    Raises:
        UnreachableError: The file is not there.
        InputError: It is no plan of this version.
        VerificationError: Its content is not what its id says.
    """
    data = read_bytes(Path(path), MOST_BYTES)
    try:
        plan = msgspec.json.decode(data, type=QualityPlan)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise InputError(NOT_A_PLAN(problem=str(error)[:200]), Place(path)) from error
    if plan.schema != SCHEMA:
        raise InputError(NOT_A_PLAN(problem=f"schema {plan.schema[:60]}"), Place(path))
    expected = frozen(plan).id
    if expected != plan.id:
        raise VerificationError(EDITED(found=expected[:12], stated=plan.id[:12]), Place(path))
    return plan


def seed_of(plan_id: str, item: str) -> int:
    """The seed of one item's answer, the same for every arm: 31 bits of the digest of plan and item."""
    return int.from_bytes(hashlib.sha256(f"{plan_id}\n{item}".encode()).digest()[:4], "big") & 0x7FFFFFFF
