"""Gemma's last layers, which make no keys and values: each reads the cache of an earlier layer of its own type."""

from __future__ import annotations

from collections.abc import Sequence

from capienza.architecture.reading import MAX_LAYERS, Config


def cache_sources(config: Config, types: Sequence[str], shared: int) -> list[int | None]:
    """For each layer the earlier one whose cache it reads, None where it has its own.

    `shared` is the class default. Every type of layer must have one with a cache.
    """
    key = "num_kv_shared_layers"
    count = config.integer(key, shared, minimum=0, maximum=MAX_LAYERS)
    if count >= len(types):
        config.broken_rule(key, count, f"{key} < num_hidden_layers == {len(types)}")
    first = len(types) - count
    last_of = {kind: index for index, kind in enumerate(types[:first])}
    for kind in types[first:]:
        if kind not in last_of:
            config.broken_rule(key, count, f"layer_types[:{first}]: {kind}")
    return [None if index < first else last_of[kind] for index, kind in enumerate(types)]
