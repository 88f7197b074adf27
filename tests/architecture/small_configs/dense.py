"""Small random configs of dense decoders, as their config.json is written."""

from __future__ import annotations

from random import Random
from typing import Any

from drawn_parts import flag, frame, maybe, types

Config = dict[str, Any]


def nemotron(random: Random) -> Config:
    config = frame(random)
    maybe(random, config, head_dim=random.choice([4, 8]), attention_bias=flag(random), mlp_bias=flag(random))
    return config


def olmo(random: Random) -> Config:
    config = frame(random)
    maybe(random, config, attention_bias=flag(random), head_dim=random.choice([4, 6]))
    if flag(random):
        del config["num_key_value_heads"]
    return config


def olmo3(random: Random) -> Config:
    config = olmo(random)
    maybe(random, config, sliding_window=random.choice([4, 7]))
    maybe(random, config, layer_types=types(random, config, "sliding_attention", "full_attention"))
    return config


def seed_oss(random: Random) -> Config:
    config = olmo(random) | {"num_key_value_heads": 1}
    maybe(random, config, attention_out_bias=flag(random), mlp_bias=flag(random))
    return config


def stablelm(random: Random) -> Config:
    config = frame(random) | {"partial_rotary_factor": 0.5}  # a quarter of a tiny head is no pair
    maybe(
        random,
        config,
        use_qkv_bias=flag(random),
        qk_layernorm=flag(random),
        use_parallel_residual=flag(random),
    )
    return config


def vaultgemma(random: Random) -> Config:
    config = olmo3(random)
    config.setdefault("num_key_value_heads", config["num_attention_heads"])
    return config


def nanochat(random: Random) -> Config:
    config = olmo(random)
    config.pop("head_dim", None)
    return config


def hrm_text(random: Random) -> Config:
    config = frame(random, grouped=False, layers=3)
    maybe(
        random,
        config,
        head_dim=random.choice([4, 8]),
        attention_bias=flag(random),
        mlp_bias=flag(random),
        H_cycles=random.randint(1, 3),
        L_cycles=random.randint(1, 2),
    )
    if flag(random):
        stack = config["num_hidden_layers"]
        config["num_layers_per_stack"] = stack
        config["num_hidden_layers"] = stack * config.get("H_cycles", 2) * (config.get("L_cycles", 3) + 1)
    return config


GENERATORS = {
    "hrm_text": hrm_text,
    "nanochat": nanochat,
    "nemotron": nemotron,
    "olmo": olmo,
    "olmo3": olmo3,
    "seed_oss": seed_oss,
    "stablelm": stablelm,
    "vaultgemma": vaultgemma,
}
