"""The latent attention of dots3.note: windowed layers have wider latents and fewer heads than the others.

Legend: rope the part of each key that carries the position; nope the part that does not; rank width of a latent.
"""

from __future__ import annotations

from collections.abc import Sequence

from capienza.architecture.heads import layer_types
from capienza.architecture.latent import Latent
from capienza.architecture.layer_overrides import layer_overrides
from capienza.architecture.reading import Config

FULL, INDEXED, SLIDING = "full_attention", "indexed_attention", "sliding_attention"
# Key of the file, and what the windowed layers have where it states nothing; `head_dim` is rope and nope together.
WINDOWED = {
    "num_attention_heads": 64,
    "num_key_value_heads": 64,
    "q_lora_rank": 1024,
    "kv_lora_rank": 1024,
    "head_dim": 256,
    "qk_nope_head_dim": 192,
    "v_head_dim": 128,
}
OVERRIDDEN = frozenset({*WINDOWED, "qk_rope_head_dim"})


def dots3_types(config: Config, num_layers: int) -> tuple[str, ...]:
    """The first two layers and then every fourth look at everything, through an indexer unless `use_dsa` is false."""
    indexed = config.flag("use_dsa", default=True)
    windows = config.flag("use_sliding_window", default=True)
    everything = INDEXED if indexed else FULL
    types = layer_types(
        config,
        num_layers,
        lambda index: everything if not windows or index < 2 or index % 4 == 1 else SLIDING,
        {FULL, INDEXED, SLIDING},
    )
    if config.raw("use_dsa") is None and config.raw("per_layer_config") is not None:
        return types  # a file saved by transformers: the types are final
    return tuple(kind if kind == SLIDING else everything for kind in types)


def dots3_latents(config: Config, types: Sequence[str]) -> list[Latent]:
    """The sizes of each layer."""
    usual = {
        "num_attention_heads": config.dimension("num_attention_heads", 128),
        "num_key_value_heads": config.integer("num_key_value_heads", 128),
        "q_lora_rank": config.integer("q_lora_rank", 1024),
        "kv_lora_rank": config.dimension("kv_lora_rank", 512),
        "head_dim": config.integer("head_dim", 256),
        "qk_nope_head_dim": config.integer("qk_nope_head_dim", 128),
        "qk_rope_head_dim": config.integer("qk_rope_head_dim", 64),
        "v_head_dim": config.integer("v_head_dim", 128),
    }
    overrides = layer_overrides(config, len(types), OVERRIDDEN)
    if overrides is None:
        made = {False: _latent(config, usual)}
        if SLIDING in types:
            made[True] = _windowed_latent(config, usual)
        return [made[kind == SLIDING] for kind in types]
    latents = []
    for index, kind in enumerate(types):
        view = overrides.get(index)
        sizes = usual if view is None else {key: view.optional(key) or size for key, size in usual.items()}
        if kind == SLIDING:
            _check_rope(config if view is None else view, sizes, prefix="")
        latents.append(_latent(config if view is None else view, sizes))
    return latents


def _windowed_latent(config: Config, usual: dict[str, int]) -> Latent:
    """The windowed layers' own sizes, under keys that begin with `swa_`."""
    sizes = {key: config.integer(f"swa_{key}", default) for key, default in WINDOWED.items()}
    stated = config.optional("swa_qk_rope_head_dim")
    sizes["qk_rope_head_dim"] = stated or sizes["head_dim"] - sizes["qk_nope_head_dim"]
    if sizes["qk_rope_head_dim"] < 1:
        size = sizes["qk_nope_head_dim"]
        config.broken_rule("swa_qk_nope_head_dim", size, f"swa_qk_nope_head_dim < swa_head_dim == {sizes['head_dim']}")
    _check_rope(config, sizes, prefix="swa_")
    return _latent(config, {**usual, **sizes}, prefix="swa_")


def _check_rope(config: Config, sizes: dict[str, int], *, prefix: str) -> None:
    whole = sizes["qk_nope_head_dim"] + sizes["qk_rope_head_dim"]
    if sizes["head_dim"] != whole:
        rule = f"{prefix}head_dim == {prefix}qk_nope_head_dim + {prefix}qk_rope_head_dim == {whole}"
        config.broken_rule(f"{prefix}head_dim", sizes["head_dim"], rule)


def _latent(config: Config, sizes: dict[str, int], *, prefix: str = "") -> Latent:
    heads, kv_heads = sizes["num_attention_heads"], sizes["num_key_value_heads"]
    if heads != kv_heads:
        rule = f"{prefix}num_key_value_heads == {prefix}num_attention_heads == {heads}"
        config.broken_rule(f"{prefix}num_key_value_heads", kv_heads, rule)
    return Latent(
        num_heads=heads,
        num_key_value_heads=kv_heads,
        query_rank=sizes["q_lora_rank"],
        rank=sizes["kv_lora_rank"],
        nope=sizes["qk_nope_head_dim"],
        rope=sizes["qk_rope_head_dim"],
        value=sizes["v_head_dim"],
    )
