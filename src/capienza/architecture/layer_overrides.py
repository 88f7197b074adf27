"""Keys that a file states anew for some layers, as transformers writes them under `per_layer_config`."""

from __future__ import annotations

from collections.abc import Collection

from capienza.architecture.reading import Config
from capienza.errors import phrase

KEY = "per_layer_config"


def layer_overrides(config: Config, num_layers: int, accepted: Collection[str]) -> dict[int, Config] | None:
    """The keys of each layer that has some of its own; None where the file states no such part."""
    part = config.section(KEY)
    if part is None:
        return None
    views: dict[int, Config] = {}
    for name in part.mapping:
        label = str(name)[:40]
        if not label.isdecimal() or int(label) >= num_layers:
            config.broken_rule(f"{KEY}.{label}", label, f"0 <= layer < {num_layers}")
        view = part.section(name)
        if view is None:
            continue
        for key in view.mapping:
            if key not in accepted:
                direction = phrase("each layer may be smaller or larger than the common keys say")
                view.not_understood(str(key)[:80], view.raw(key), ", ".join(sorted(accepted)), direction)
        views[int(label)] = view
    return views
