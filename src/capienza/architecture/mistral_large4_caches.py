"""Which layers of Mistral Large 4 keep a latent cache, which read that of an earlier layer, and which index."""

from __future__ import annotations

import msgspec

from capienza.architecture.heads import rotary_layers
from capienza.architecture.indexer import indexed_layers
from capienza.architecture.reading import MAX_LAYERS, Config


class LayerCaches(msgspec.Struct, frozen=True):
    """What one layer keeps; `source` is the layer whose latent it reads, None where it has its own."""

    rotary: bool
    indexed: bool
    source: int | None


def layer_caches(config: Config, num_layers: int) -> list[LayerCaches]:
    """One for each layer; a shared latent has the same rotary part."""
    rotary = rotary_layers(config, num_layers)
    indexed = indexed_layers(config, num_layers)
    key = "kv_source_layers"
    stated = config.integers(key, maximum=MAX_LAYERS)
    sources = range(num_layers) if stated is None else stated
    if len(sources) != num_layers:
        config.broken_rule(key, stated, f"len({key}) == {num_layers}")
    for index, source in enumerate(sources):
        if source > index or sources[source] != source:
            config.broken_rule(f"{key}[{index}]", source, f"{key}[{source}] == {source} <= {index}")
        if rotary[source] != rotary[index]:
            config.broken_rule(f"{key}[{index}]", source, f"no_rope_layers[{source}] == no_rope_layers[{index}]")
    return [
        LayerCaches(bool(turned), has_indexer, None if source == index else source)
        for index, (turned, has_indexer, source) in enumerate(zip(rotary, indexed, sources, strict=True))
    ]
