"""The workload card: requirements as written, nothing assumed.

A field that the card does not state is None. One written as `none` is `NONE`: not applicable, and said so by
the person who wrote the card. Sizes are bytes, money is decimal, tokens are per sequence.
"""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Literal

import msgspec

from capienza.card.quality_model import Quality
from capienza.units import Money

NONE: Literal["none"] = "none"
NotApplicable = Literal["none"]
Task = Literal["inference", "fine-tuning"]
Basis = Literal["hypothetical", "measured", "documented"]
Scalar = str | int | float | bool
Figure = Literal["cost", "margin", "finish", "preferences"]
Threshold = Literal["%", "B", "h"]
FIGURES: tuple[Figure, ...] = ("cost", "margin", "finish", "preferences")


class ModelRef(msgspec.Struct, frozen=True, kw_only=True):
    """A Hub id with revision, or a local path, or a bare parameter count with bits per parameter."""

    id: str | None = None
    revision: str | None = None
    path: str | None = None
    parameters: int | None = None
    bits: Decimal | None = None


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """Resident weight format; None keeps the stored one."""

    format: str | None = None


class Engine(msgspec.Struct, frozen=True, kw_only=True):
    """The program that runs the model."""

    name: str
    version: str | None = None
    options: dict[str, Scalar] = {}


class TokenCount(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of one sequence: `total` is prompt + output; the parts are None when only the total is stated."""

    total: int
    prompt: int | None = None
    output: int | None = None


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """Lengths of the three stages; `required` is the one every verdict is about."""

    short: TokenCount | None = None
    usual: TokenCount | None = None
    required: TokenCount | None = None


class Reasoned(msgspec.Struct, frozen=True, kw_only=True):
    """A chosen amount of memory (reserve or margin) and its reason."""

    amount_bytes: int
    reason: str | None = None


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """How many GPUs one copy of the model needs, and how it is divided."""

    gpus: int | None = None
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    expert_parallel: int = 1
    data_parallel: int = 1

    @property
    def gpus_per_copy(self) -> int:
        """GPUs that one copy of the model is divided over."""
        return max(self.gpus or 1, self.tensor_parallel * self.pipeline_parallel)

    @property
    def gpus_per_run(self) -> int:
        """GPUs that one training run is divided over: its data-parallel ranks are one run."""
        return max(self.gpus_per_copy, self.tensor_parallel * self.pipeline_parallel * self.data_parallel)


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """What the server must have; `others_use_bytes` is GPU memory taken by other programs.

    `data_bytes` is disk for what cannot be computed (data sets, images, caches), `egress_bytes` what is downloaded.
    """

    ram_bytes: int | NotApplicable | None = None
    storage_bytes: int | NotApplicable | None = None
    data_bytes: int | None = None
    egress_bytes: int | NotApplicable | None = None
    interconnect: str | None = None
    managed_application: str | None = None
    others_use_bytes: int | None = None


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """The most that the whole package may cost. `price_age` is how old a price without an end of its own may be."""

    cap: Money
    price_age: datetime.timedelta | None = None


class LowerBound(msgspec.Struct, frozen=True, kw_only=True):
    """Hours below which a step cannot be done, whatever is tried, and why. It can exclude, and confirms nothing."""

    hours: Decimal
    reason: str


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One step of the plan; only a measured or documented duration can confirm a calendar.

    Without `hours`, they come from the record that `record` names (an id, or its beginning), or from `work_tokens` at
    the rate of a measured pilot.
    """

    name: str
    hours: Decimal | None = None
    basis: Basis = "hypothetical"
    record: str | None = None
    work_tokens: int | None = None
    at_least: LowerBound | None = None


class Calendar(msgspec.Struct, frozen=True, kw_only=True):
    """When the work may start and must end. `deadline` is exclusive; a bare date is a whole day in `timezone`.

    `contingency_percent` is added to the planned hours, `daily_hours` of each day there is work (None: all of them).
    """

    timezone: str | None = None
    start: datetime.datetime | None = None
    deadline: datetime.datetime | None = None
    contingency_percent: Decimal | None = None
    daily_hours: Decimal | None = None
    steps: tuple[Step, ...] = ()


class Within(msgspec.Struct, frozen=True):
    """How far apart two figures still count as equal: a share in percent, bytes, or hours."""

    amount: Decimal
    unit: Threshold


class RankBy(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of the order. `within` None: only equal figures are equal."""

    by: Figure
    within: Within | None = None


DEFAULT_ORDER = tuple(RankBy(by=figure) for figure in FIGURES)
"""Total package cost, useful margin, documented calendar, preferences; no threshold."""


class Training(msgspec.Struct, frozen=True, kw_only=True):
    """The fine-tuning recipe, as far as it is stated."""

    method: str | None = None
    rank: int | None = None
    optimizer: str | None = None
    options: dict[str, Scalar] = {}


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """One workload. `file` is where it was read from, `sha256` the digest of its bytes.

    `allocator` are the settings of PyTorch's allocator, as its own environment variable takes them.
    """

    name: str
    model: ModelRef
    task: Task
    weights: Weights = Weights()
    engine: Engine | None = None
    tokens: Tokens = Tokens()
    concurrency: int | None = None
    microbatch: int | None = None
    accumulation: int | None = None
    training: Training | None = None
    allocator: str | None = None
    reserve: Reasoned | None = None
    margin: Reasoned | None = None
    quality: Quality | NotApplicable | None = None
    placement: Placement | NotApplicable | None = None
    host: Host | NotApplicable | None = None
    budget: Budget | NotApplicable | None = None
    calendar: Calendar | NotApplicable | None = None
    preferences: tuple[dict[str, str], ...] = ()
    ranking: tuple[RankBy, ...] = DEFAULT_ORDER
    file: str | None = None
    sha256: str | None = None

    @property
    def gpus_per_copy(self) -> int:
        """GPUs that one copy of the model, or one training run, is divided over; 1 where no placement is stated."""
        if not isinstance(self.placement, Placement):
            return 1
        return self.placement.gpus_per_run if self.task == "fine-tuning" else self.placement.gpus_per_copy

    @property
    def zone(self) -> datetime.tzinfo | None:
        """The time zone of bare dates, here and in offers, and of moments shown; None where none is stated."""
        name = self.calendar.timezone if isinstance(self.calendar, Calendar) else None
        if name is None:
            return None
        import zoneinfo

        return zoneinfo.ZoneInfo(name)
