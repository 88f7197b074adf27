"""One record: a dated, versioned, scoped, content-addressed fact."""

from __future__ import annotations

import datetime
from typing import Literal

import msgspec

RecordKind = Literal[
    "document",
    "prediction",
    "measurement",
    "plan",
    "outputs",
    "quality_result",
    "decision",
    "waiver",
    "supersedes",
    "invalidates",
]
Method = Literal["examine", "compute", "measure", "attest"]
SCHEMA = "capienza.record/1"


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """What a record is about: a name, and where known its address and digest."""

    name: str
    uri: str | None = None
    sha256: str | None = None


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """Where a record speaks. A field that is None was not stated, and then covers nothing that a verdict needs.

    The workload bounds are the dimensions really executed: tokens of one sequence, concurrent sequences, microbatch.
    `configuration` holds what else moves memory (engine options, training recipe, how the model is divided), as
    written by `claims.configuration_text`. `driver` is one version or a range of them (`drivers`). A document that
    speaks of everything in a text field says `any` there.
    """

    model: str | None = None
    revision: str | None = None
    task: str | None = None
    weight_format: str | None = None
    kv_format: str | None = None
    engine: str | None = None
    engine_version: str | None = None
    gpu: str | None = None
    gpus: int | None = None
    driver: str | None = None
    provider: str | None = None
    offer: str | None = None
    tokens: int | None = None
    concurrency: int | None = None
    microbatch: int | None = None
    configuration: str | None = None


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """One statement: a quantity with its value and unit, or a criterion with `satisfied` / `violated`.

    `value` is an integer number of bytes, a decimal string or a word; never NaN. `phase` and `counter` belong
    to memory readings.
    """

    quantity: str
    value: str | int
    unit: str | None = None
    phase: str | None = None
    counter: str | None = None
    gpu_index: int | None = None
    basis: str | None = None


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A fact. Its id is the sha256 of its canonical JSON without `id` and `sha256` (they are the same digest).

    In `inputs`, 64 hexadecimal digits alone are the id of a record; a file is written `sha256:` and its digest.
    """

    schema: str = SCHEMA
    kind: RecordKind
    version: str
    date: datetime.datetime
    subject: tuple[Subject, ...] = ()
    scope: Scope = Scope()
    claims: tuple[Claim, ...] = ()
    method: Method = "examine"
    mode: Literal["automatic", "manual"] = "manual"
    producer: dict[str, str] = {}
    inputs: tuple[str, ...] = ()
    expires: datetime.datetime | None = None
    notes: tuple[str, ...] = ()
    id: str = ""
    sha256: str = ""
