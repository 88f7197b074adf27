"""Modules of a model with their weights: linear, norm, adapter."""

from __future__ import annotations

from typing import Literal

import msgspec

from capienza.predict.training.tape import Weight


class Adapter(msgspec.Struct, frozen=True):
    """A low-rank pair beside a linear module; `magnitude`: DoRA's trained length of each result."""

    down: Weight
    up: Weight
    has_dropout: bool
    magnitude: Weight | None = None


class Linear(msgspec.Struct, frozen=True):
    """A matrix of [results, inputs], perhaps with a bias and an adapter.

    Of a quantised one: `holds_rows` says that its input stays as long as the graph, beyond its backward pass;
    `unpacking` how it is unpacked: at once, in another format than that of the rows and then copied (Lightning), or
    through tables of indices (torchao). `keeps_update` is LitGPT's (`litgpt`).
    """

    weight: Weight
    bias: Weight | None = None
    adapter: Adapter | None = None
    holds_rows: bool = False
    unpacking: Literal["once", "copied", "indexed"] = "once"
    keeps_update: bool = True


class Norm(msgspec.Struct, frozen=True):
    """`kind`: one of `norm.KINDS`, each the operations that transformers writes."""

    weight: Weight | None
    bias: Weight | None
    width: int
    kind: str
