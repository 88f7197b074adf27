"""Which of Dory's layers run once and which several times; published files list attention and MLPs as layers apart."""

from __future__ import annotations

import msgspec

from capienza.architecture.heads import FULL_OR_SLIDING, layer_types
from capienza.architecture.reading import MAX_LAYERS, Config
from capienza.errors import phrase

MODES = ("per_loop", "last_loop")


class Plan(msgspec.Struct, frozen=True):
    """The type of each layer, the layers that run several times, and how many caches each of those keeps."""

    types: tuple[str, ...]
    repeated: range
    caches: int


def read_plan(config: Config) -> Plan:
    """The plan of a file, in either way of counting layers."""
    listed = config.dimension("num_hidden_layers", 36, maximum=2 * MAX_LAYERS)
    parts = {
        "n_input_layers": config.integer("n_input_layers", 8, minimum=0),
        "n_recurrent_layers": config.optional("n_recurrent_layers", minimum=0),
        "n_output_layers": config.integer("n_output_layers", 8, minimum=0),
    }
    apart = "mlp" in (config.texts("layer_types") or ())
    types = _paired_types(config, listed) if apart else _plain_types(config, listed)
    first, middle, last = (None if part is None else part // (2 if apart else 1) for part in parts.values())
    first, last = first or 0, last or 0
    middle = len(types) - first - last if middle is None else middle
    if middle < 0 or first + middle + last != len(types):
        rule = "n_input_layers + n_recurrent_layers + n_output_layers == num_hidden_layers"
        config.broken_rule("num_hidden_layers", listed, rule)
    loops = config.integer("n_recurrent_loops", 2, maximum=MAX_LAYERS)
    mode = config.text("recurrent_kv_cache_mode", MODES[0])
    if mode not in MODES:
        direction = phrase("another kind of layer may keep less cache, or a state of its own")
        config.not_understood("recurrent_kv_cache_mode", mode, ", ".join(MODES), direction)
    return Plan(types, range(first, first + middle), loops if mode == MODES[0] else 1)


def _plain_types(config: Config, num_layers: int) -> tuple[str, ...]:
    """Every fourth layer is full unless `layer_types` says otherwise."""
    if num_layers > MAX_LAYERS:
        config.broken_rule("num_hidden_layers", num_layers, f"num_hidden_layers <= {MAX_LAYERS}")
    return layer_types(config, num_layers, lambda index: "sliding_attention" if (index + 1) % 4 else "full_attention")


def _paired_types(config: Config, listed: int) -> tuple[str, ...]:
    """Attention at even places, an MLP after each."""
    types = layer_types(config, listed, str, {*FULL_OR_SLIDING, "mlp"})
    for index, kind in enumerate(types):
        if (kind == "mlp") != bool(index % 2):
            config.contradiction(f"layer_types[{index}]", kind, "mlp" if index % 2 else "full_attention")
    if len(types) % 2:
        config.broken_rule("layer_types", types, "len(layer_types) % 2 == 0")
    return types[::2]
