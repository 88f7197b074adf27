"""LitGPT's one product for query, key and value, out of a family's three, or of its own one.

Its adapter has one matrix down for all that are adapted and one up, whose results are spread among zeros.
Source: litgpt 0.4.13 lora.py (LoRAQKVLinear).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from capienza.architecture.model import Attention
from capienza.predict.training.blocks.modules import Adapter, Linear
from capienza.predict.training.tape import Weight

KEEPS_UPDATE_SINCE = (0, 0, 202309)
"""Release of LitGPT since which `index_copy` spreads an adapter's results, and keeps them; before it was an index
(measured runs of August 2023 hold none of them, those of October do)."""


def joined_product(modules: Sequence[Linear], shape: Attention, *, keeps_update: bool) -> Linear:
    """The module; one that is a single product already has adapters of query and value."""
    first = modules[0]
    rows, columns = sum(one.weight.rows for one in modules), first.weight.columns
    weight = Weight(rows, columns, first.weight.item, first.weight.leaf is not None, first.weight.quantised)
    bias = first.bias
    if bias is not None:
        bias = Weight(rows, 1, bias.item, bias.leaf is not None)
    pairs = [one.adapter for one in modules if one.adapter is not None]
    adapter = _adapter(pairs, columns, shape, is_single=len(modules) == 1) if pairs else None
    return msgspec.structs.replace(first, weight=weight, bias=bias, adapter=adapter, keeps_update=keeps_update)


def _adapter(pairs: Sequence[Adapter], columns: int, shape: Attention, *, is_single: bool) -> Adapter:
    first = pairs[0]
    rank, count, rows = first.up.columns, len(pairs), sum(pair.up.rows for pair in pairs)
    if is_single:
        count, rows = 2, shape.key_head_dim * (shape.num_attention_heads + shape.num_key_value_heads)
    return Adapter(
        Weight(rank * count, columns, first.down.item, True),
        Weight(rows, rank, first.up.item, True),
        first.has_dropout,
    )
