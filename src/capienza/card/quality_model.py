"""How a card says what good enough means: corpus, metrics with margins, what is compared with what, and how."""

from __future__ import annotations

from decimal import Decimal

import msgspec


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """A quality threshold fixed before looking. `kind` None: the metric is the one that its name says."""

    name: str
    kind: str | None = None
    min: Decimal | None = None
    max_regression: Decimal | None = None
    reason: str | None = None
    ignore: tuple[str, ...] = ()
    tolerance: Decimal | None = None
    relative_tolerance: Decimal | None = None
    pattern: str | None = None


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    """What answers in an arm beside the candidate; what is None is as in the card."""

    model: str | None = None
    revision: str | None = None
    weights: str | None = None
    cache: str | None = None
    engine: str | None = None
    version: str | None = None
    configuration: str | None = None


class Decoding(msgspec.Struct, frozen=True, kw_only=True):
    """How tokens are chosen, the same for every arm."""

    max_tokens: int | None = None
    temperature: Decimal | None = None
    top_p: Decimal | None = None
    stop: tuple[str, ...] = ()


class LengthBand(msgspec.Struct, frozen=True, kw_only=True):
    """How much shorter or longer the candidate's outputs may be, as ratios to the reference's."""

    least: Decimal
    most: Decimal


class Quality(msgspec.Struct, frozen=True, kw_only=True):
    """The frozen corpus, its metrics, and how the comparison is made."""

    corpus: str | None = None
    metrics: tuple[Metric, ...] = ()
    reference: Answers | None = None
    harmed: Answers | None = None
    decoding: Decoding | None = None
    length: LengthBand | None = None
    alpha: Decimal | None = None
    power: Decimal | None = None
    discordant_share: Decimal | None = None
    tokenizer: str | None = None
    chat_template: str | None = None
