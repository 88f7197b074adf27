"""Small random configs of mixtures of experts, as their config.json is written."""

from __future__ import annotations

from random import Random
from typing import Any

from drawn_parts import deepseek_experts, flag, frame, maybe, mlp_types, types

Config = dict[str, Any]


def sarvam_moe(random: Random) -> Config:
    config = frame(random) | deepseek_experts(random)
    config["num_experts"] = config.pop("n_routed_experts")
    config["num_shared_experts"] = config.pop("n_shared_experts")
    maybe(random, config, head_dim=random.choice([4, 8]), first_k_dense_replace=random.randint(0, 4))
    maybe(random, config, use_qkv_bias=flag(random), use_qk_norm=flag(random))
    return config


def solar_open(random: Random) -> Config:
    config = frame(random) | deepseek_experts(random)
    del config["intermediate_size"]
    maybe(random, config, head_dim=random.choice([4, 8]), attention_bias=flag(random))
    return config


def _experts(random: Random, key: str) -> Config:
    return {key: random.randint(2, 5), "num_experts_per_tok": random.randint(1, 2)}


def olmoe(random: Random) -> Config:
    config = frame(random) | _experts(random, "num_experts")
    maybe(random, config, attention_bias=flag(random))
    return config


def mellum(random: Random) -> Config:
    config = frame(random) | _experts(random, random.choice(["num_experts", "num_local_experts"]))
    config["moe_intermediate_size"] = random.randint(1, 12)
    maybe(
        random,
        config,
        head_dim=random.choice([4, 8]),
        attention_bias=flag(random),
        mlp_layer_types=mlp_types(random, config),
        layer_types=types(random, config, "sliding_attention", "full_attention"),
        sliding_window=5,
        num_nextn_predict_layers=1,
    )
    return config


def minimax_m2(random: Random) -> Config:
    config = frame(random) | _experts(random, "num_local_experts")
    config["head_dim"] = random.choice([4, 8])
    maybe(random, config, attn_type_list=[1] * config["num_hidden_layers"], num_mtp_modules=3, rotary_dim=2)
    return config


def mimo_v2_flash(random: Random) -> Config:
    config = frame(random) | deepseek_experts(random)
    del config["n_shared_experts"]
    config["num_attention_heads"] = 2 * config["num_key_value_heads"] * random.choice([1, 2])
    config |= {"head_dim": random.choice([4, 8]), "v_head_dim": random.choice([2, 6])}
    config["rope_parameters"] = {
        kind: {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}
        for kind in ("full_attention", "sliding_attention")
    }
    maybe(
        random,
        config,
        attention_bias=flag(random),
        mlp_layer_types=mlp_types(random, config),
        layer_types=types(random, config, "sliding_attention", "full_attention"),
        sliding_window_size=4,
        swa_head_dim=config["head_dim"],
    )
    if "sliding_window_size" not in config:
        config["sliding_window"] = 6
    return config


def laguna(random: Random) -> Config:
    config = frame(random) | _experts(random, "num_experts")
    config |= {
        "moe_intermediate_size": random.randint(1, 12),
        "shared_expert_intermediate_size": random.randint(1, 12),
    }
    kv_heads = config["num_key_value_heads"]
    maybe(
        random,
        config,
        head_dim=random.choice([4, 8]),
        attention_bias=flag(random),
        gating=random.choice([True, False, "per-head", "per-element"]),
        mlp_layer_types=mlp_types(random, config),
        layer_types=types(random, config, "sliding_attention", "full_attention"),
        num_attention_heads_per_layer=[kv_heads * random.choice([1, 2, 3]) for _ in range(config["num_hidden_layers"])],
        sliding_window=5,
    )
    return config


def kolibri1(random: Random) -> Config:
    config = frame(random) | _experts(random, random.choice(["num_experts", "num_local_experts"]))
    del config["intermediate_size"]
    config |= {
        "moe_intermediate_size": random.randint(1, 12),
        "shared_expert_intermediate_size": random.randint(1, 12),
    }
    maybe(
        random,
        config,
        head_dim=random.choice([4, 8]),
        layer_types=types(random, config, "sliding_attention", "full_attention"),
        sliding_window=5,
    )
    return config


def minimax_m3_vl_text(random: Random) -> Config:
    config = frame(random) | _experts(random, "num_local_experts")
    layers = config["num_hidden_layers"]
    config |= {
        "head_dim": random.choice([4, 8]),
        "dense_intermediate_size": random.randint(1, 12),
        "shared_intermediate_size": random.randint(1, 12),
        "index_n_heads": config["num_key_value_heads"],
        "index_head_dim": 4,
        "index_block_size": 4,
        "rotary_dim": 2,
    }
    sparse = {
        "sparse_num_index_heads": config["num_key_value_heads"],
        "sparse_index_dim": random.choice([4, 6]),
        "sparse_block_size": 4,
    }
    if flag(random):
        config["sparse_attention_config"] = sparse | {
            "sparse_attention_freq": [random.randint(0, 1) for _ in range(layers)]
        }
    else:
        maybe(random, config, layer_types=types(random, config, "minimax_m3_sparse", "full_attention"))
    maybe(random, config, mlp_layer_types=mlp_types(random, config))
    maybe(random, config, moe_layer_freq=[random.randint(0, 1) for _ in range(layers)])
    return config


def beam(random: Random) -> Config:
    config = frame(random) | {"num_experts": random.choice([4, 8]), "num_experts_per_tok": 2, "n_group": 2}
    config |= {"topk_group": 1, "moe_intermediate_size": random.randint(1, 12), "head_dim": random.choice([4, 8])}
    maybe(random, config, attention_bias=flag(random), sliding_window=random.choice([5, 9]))
    maybe(random, config, layer_types=types(random, config, "sliding_attention", "full_attention"))
    maybe(random, config, mlp_layer_types=mlp_types(random, config))
    return config


GENERATORS = {
    "beam": beam,
    "kolibri1": kolibri1,
    "laguna": laguna,
    "mellum": mellum,
    "mimo_v2_flash": mimo_v2_flash,
    "minimax_m2": minimax_m2,
    "minimax_m3_vl_text": minimax_m3_vl_text,
    "olmoe": olmoe,
    "sarvam_moe": sarvam_moe,
    "solar_open": solar_open,
}
