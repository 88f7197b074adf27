"""Which layers of Step 3.5 and 3.7 slide, which hold experts, and how many heads each has.

Published files list the prediction layers after the others, and state what differs in sliding layers in a part of
its own. transformers takes the heads of Q from that part, and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

from capienza.architecture.heads import FULL_OR_SLIDING, OLDER_TYPES
from capienza.architecture.layer_overrides import layer_overrides
from capienza.architecture.reading import MAX_LAYERS, Config
from capienza.errors import phrase

SLIDING = "sliding_attention"


def prediction_layers(config: Config) -> int:
    """How many prediction layers the lists may hold after the last layer."""
    return config.optional("num_nextn_predict_layers", minimum=0, maximum=MAX_LAYERS) or 0


def step_types(config: Config, num_layers: int) -> tuple[str, ...]:
    """The type of attention of each layer: as listed, else all full."""
    direction = phrase("another kind of layer may keep less cache, or a state of its own")
    return _listed(config, "layer_types", num_layers, "full_attention", sorted(FULL_OR_SLIDING), direction)


def step_sparse(config: Config, num_layers: int) -> list[bool]:
    """Which layers hold experts: as listed, else all but the first three."""
    key = "moe_layers_enum"
    if config.raw("mlp_layer_types") is None and config.raw(key) is not None:
        holding = _numbers(config, key)
        return [index in holding for index in range(num_layers)]
    if config.raw("mlp_layer_types") is None:
        return [index >= 3 for index in range(num_layers)]
    direction = phrase("another kind of layer may hold more weights, or fewer")
    listed = _listed(config, "mlp_layer_types", num_layers, "dense", ["dense", "sparse"], direction)
    return [kind == "sparse" for kind in listed]


def step_heads(config: Config, types: Sequence[str], *, heads: int, kv_heads: int, head_dim: int) -> list[int]:
    """The heads of Q in each layer: those of sliding layers may be more."""
    overrides = layer_overrides(config, len(types), {"num_attention_heads"})
    if overrides is not None:
        return [
            overrides[index].optional("num_attention_heads") or heads if index in overrides else heads
            for index in range(len(types))
        ]
    other = config.section("attention_other_setting")
    stated = config.optional("num_sliding_attention_heads")
    if other is not None:
        for key, common in (("num_attention_groups", kv_heads), ("head_dim", head_dim)):
            found = other.optional(key)
            if found not in (None, common):
                other.contradiction(key, found, str(common))
        stated = stated or other.optional("num_attention_heads")
    return [(stated or heads) if kind == SLIDING else heads for kind in types]


def _listed(
    config: Config, key: str, num_layers: int, default: str, accepted: Sequence[str], direction: str
) -> tuple[str, ...]:
    """A kind for each layer, without those of the prediction layers."""
    stated = config.texts(key)
    if stated is None:
        return (default,) * num_layers
    if len(stated) == num_layers + prediction_layers(config):
        stated = stated[:num_layers]
    if len(stated) != num_layers:
        config.broken_rule(key, stated, f"len({key}) == {num_layers}")
    kinds = tuple(OLDER_TYPES.get(kind, kind) for kind in stated)
    for index, kind in enumerate(kinds):
        if kind not in accepted:
            config.not_understood(f"{key}[{index}]", kind, ", ".join(accepted), direction)
    return kinds


def _numbers(config: Config, key: str) -> frozenset[int]:
    """Layers as a list, or as a text of numbers with commas."""
    value = config.raw(key)
    if not isinstance(value, str):
        return frozenset(config.integers(key, maximum=MAX_LAYERS) or ())
    parts = [part.strip() for part in value.split(",") if part.strip()]
    for part in parts:
        if not part.isdecimal() or len(part) > 6:
            config.wrong_type(key, value, phrase("whole numbers with commas"))
    return frozenset(int(part) for part in parts)
