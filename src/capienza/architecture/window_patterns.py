"""Which layers slide, for the classes that give a window and a pattern of their own."""

from __future__ import annotations

from collections.abc import Callable

from capienza.architecture.heads import Heads, attentions, layer_types
from capienza.architecture.model import Attention
from capienza.architecture.reading import Config


def ruled_attentions(
    config: Config, heads: Heads, num_layers: int, *, window: int, full: Callable[[int], bool]
) -> list[Attention]:
    """Layers as `layer_types` says, else full where the rule of the class says so; `window` is the class default."""
    types = layer_types(config, num_layers, lambda index: "full_attention" if full(index) else "sliding_attention")
    return attentions(config, heads, types, config.optional("sliding_window", window))


def patterned_attentions(
    config: Config, heads: Heads, num_layers: int, *, window: int, pattern: int
) -> list[Attention]:
    """EXAONE's rule: every `sliding_window_pattern`-th layer is full, and all of them where there is no window.

    Published files write the pattern as "LLLG" beside `layer_types`, which then decides alone.
    """
    stated = config.optional("sliding_window", window)
    if config.raw("layer_types") is None and stated is not None:
        period = config.integer("sliding_window_pattern", pattern)
        return ruled_attentions(config, heads, num_layers, window=window, full=lambda index: (index + 1) % period == 0)
    return ruled_attentions(config, heads, num_layers, window=window, full=lambda _: True)
