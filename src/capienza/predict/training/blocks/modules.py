"""Modules of a model with their weights: linear, norm, adapter."""

from __future__ import annotations

import msgspec

from capienza.predict.training.tape import Weight


class Adapter(msgspec.Struct, frozen=True):
    """A low-rank pair beside a linear module; `magnitude`: DoRA's trained length of each result."""

    down: Weight
    up: Weight
    has_dropout: bool
    magnitude: Weight | None = None


class Linear(msgspec.Struct, frozen=True):
    """A matrix of [results, inputs], perhaps with a bias and an adapter."""

    weight: Weight
    bias: Weight | None = None
    adapter: Adapter | None = None


class Norm(msgspec.Struct, frozen=True):
    """`kind`: one of `norm.KINDS`, each the operations that transformers writes."""

    weight: Weight | None
    bias: Weight | None
    width: int
    kind: str
