"""What an engine is asked to run, in one form for all engines, and what it answers for one GPU."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from capienza.architecture.model import Architecture
from capienza.errors import Message, template
from capienza.formats.layout import Scheme
from capienza.ledger.phase import Phase
from capienza.predict.placement import Split
from capienza.units import Range

REQUIRED_LOAD = "kv_cache"
NO_VERSION = template(
    "predict.no-engine-version",
    "engine.version is not stated: {engine} is taken by the rules of {rules}",
    "state engine.version on the card as the engine prints it",
)
OTHER_DIVISION = template(
    "predict.other-division",
    "found {found}, but {field} is {stated}",
    "state the division once, under placement",
)
MULTIPLES = {letter: 1000**power for power, letter in enumerate("kmgt", 1)} | {
    letter: 1024**power for power, letter in enumerate("KMGT", 1)
}
_COUNT = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)([kmgtKMGT])?", re.ASCII)
Options = Mapping[str, object]


class Adapters(msgspec.Struct, frozen=True):
    """LoRA adapters that an engine keeps slots for."""

    slots: int
    rank: int


class Serving(msgspec.Struct, frozen=True, kw_only=True):
    """A model on an engine. `options` have plain names (underscores, lower case).

    `total_bytes` is what CUDA reports as one card's total, None when it is not known; `gpu` the card's name.
    `unlisted_bytes` are resident weights that the architecture does not list (a vision side), whole on every rank.
    `file` is the card that errors name.
    """

    architecture: Architecture
    dtype: str
    scheme: Scheme | None = None
    split: Split = Split()
    version: str | None = None
    options: Options = {}
    total_bytes: int | None = None
    gpu: str = ""
    required_tokens: int | None = None
    prompt_tokens: int | None = None
    concurrency: int | None = None
    adapters: Adapters | None = None
    unlisted_bytes: int = 0
    file: str | None = None

    def number(self, name: str, default: float) -> float:
        """A numeric option, or the default where it is not stated."""
        value = self.options.get(name)
        if isinstance(value, str) and value.isdecimal():
            value = int(value)
        return default if value is None or isinstance(value, str | bool) else float(value)  # type: ignore[arg-type]

    def flag(self, name: str) -> bool | None:
        """A switch as cards write it (true, "true", 1); None when it is not stated. `no_name` states the opposite."""
        for key, means in ((name, True), (f"no_{name}", False)):
            value = self.options.get(key)
            text = value.strip().casefold() if isinstance(value, str) else value
            if text in ("true", "1", 1):
                return means
            if text in ("false", "0", 0):
                return not means
        return None

    def count(self, name: str) -> int | None:
        """A whole-number option; None when it is not stated, or left to the engine (-1, "auto").

        As vLLM takes it, "16k" is 16000 and "16K" 16384.
        """
        value = self.options.get(name)
        if isinstance(value, str):
            match = _COUNT.fullmatch(value)
            value = None if match is None else int(float(match[1]) * MULTIPLES.get(match[2] or "", 1))
        if isinstance(value, float) and value == int(value):
            value = int(value)
        return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One amount on one GPU with its formula. A floor of 0 means that nothing of it is proved.

    `kind` names the calibration cases that its ceiling goes by; None: those of its own name.
    """

    name: str
    amount: Range
    phases: tuple[Phase, ...]
    formula: Message
    source: Message | None = None
    kind: str | None = None


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine says that it offers, in its own words. Counts are None where the card's total is not known.

    Without `has_pool` the engine takes memory as it needs it, and offers nothing. `is_capped`: an option bounds the
    pool after the engine has seen that one sequence fits, so that it starts with less.
    """

    budget_bytes: int | None = None
    pool_bytes: int | None = None
    block_size: int = 1
    gpu_blocks: int | None = None
    kv_tokens: int | None = None
    max_concurrency: float | None = None
    max_model_len: int | None = None
    has_pool: bool = True
    is_capped: bool = False


class RankFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One rank of a pipeline stage: every tensor-parallel rank of the stage holds the same.

    `queues`: the engine's settings run fewer sequences at once than are required.
    """

    stage: int
    figures: tuple[Figure, ...]
    offer: Offer
    queues: bool = False

    @property
    def required(self) -> Range | None:
        """What the required load takes of the cache, in the engine's own pages."""
        return self.amount(REQUIRED_LOAD)

    @property
    def is_covered(self) -> bool | None:
        """Does the engine run the required load at once? None where it has no pool, or pool or load is not known."""
        return False if self.queues else self.is_held

    @property
    def is_refused(self) -> bool:
        """Would the engine refuse to start: no pool at all, or less than one sequence of its longest length?"""
        offer = self.offer
        no_pool = offer.pool_bytes is not None and offer.pool_bytes <= 0
        is_short = offer.max_concurrency is not None and offer.max_concurrency < 1
        return no_pool or (is_short and not offer.is_capped)

    @property
    def is_held(self) -> bool | None:
        """Does the pool hold the required load at once? None where there is none, or pool or load is not known."""
        if self.is_refused:
            return False
        pool, required = self.offer.pool_bytes, self.required
        return None if pool is None or required is None else required.expected <= pool

    def amount(self, name: str) -> Range | None:
        """The amount of that name."""
        return next((figure.amount for figure in self.figures if figure.name == name), None)


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """An engine's answer, one for each pipeline stage; `notes` say which rules and defaults were taken."""

    ranks: tuple[RankFigures, ...]
    notes: tuple[Message, ...] = ()

    @property
    def tightest(self) -> RankFigures:
        """The stage that offers least: all ranks use the smallest number of blocks."""
        known = [rank for rank in self.ranks if rank.offer.gpu_blocks is not None]
        return min(known, key=lambda rank: rank.offer.gpu_blocks or 0) if known else self.ranks[0]
