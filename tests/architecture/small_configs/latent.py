"""Small random configs of models with latent attention, as their config.json is written."""

from __future__ import annotations

from random import Random
from typing import Any

from drawn_parts import deepseek_experts, flag, frame, latent, maybe, mlp_types

Config = dict[str, Any]


def axk1(random: Random) -> Config:
    config = latent(random, frame(random, grouped=False)) | deepseek_experts(random)
    maybe(random, config, mlp_layer_types=mlp_types(random, config))
    maybe(random, config, first_k_dense_replace=random.randint(0, 4), moe_layer_freq=random.randint(1, 3))
    return config


def _indexed(random: Random) -> Config:
    config = axk1(random)
    return config | {"index_n_heads": random.randint(1, 3), "index_head_dim": random.choice([4, 8])}


def axk2(random: Random) -> Config:
    config = _indexed(random) | {"index_topk": 4, "n_group": None, "topk_group": None}
    maybe(random, config, gated_norm_rank=random.randint(1, 6))
    return config


def deepseek_v32(random: Random) -> Config:
    config = _indexed(random)
    config.pop("moe_layer_freq", None)
    maybe(random, config, num_nextn_predict_layers=1)
    return config


def glm_moe_dsa(random: Random) -> Config:
    config = deepseek_v32(random)
    layers = config["num_hidden_layers"]
    kinds = ["F", *(random.choice("FS") for _ in range(layers - 1))]
    match random.randint(0, 3):
        case 0:
            config["index_topk_pattern"] = "".join(kinds)
        case 1:
            config["indexer_types"] = [{"F": "full", "S": "shared"}[kind] for kind in kinds]
        case 2:
            config |= {"index_topk_freq": random.randint(1, 3), "index_skip_topk_offset": random.randint(1, 3)}
    return config


def glm4_moe_lite(random: Random) -> Config:
    config = axk1(random)
    config.pop("moe_layer_freq", None)
    config.pop("first_k_dense_replace", None)
    maybe(random, config, q_lora_rank=None)
    return config


def youtu(random: Random) -> Config:
    config = latent(random, frame(random, grouped=False))
    maybe(random, config, q_lora_rank=None)
    return config


def minicpm3(random: Random) -> Config:
    config = youtu(random)
    maybe(random, config, v_head_dim=None, mlp_bias=flag(random))
    return config


def sarvam_mla(random: Random) -> Config:
    config = latent(random, frame(random, grouped=False)) | deepseek_experts(random)
    config["num_experts"] = config.pop("n_routed_experts")
    config["num_shared_experts"] = config.pop("n_shared_experts")
    maybe(random, config, q_lora_rank=None, first_k_dense_replace=random.randint(0, 4))
    return config


def longcat_flash(random: Random) -> Config:
    config = latent(random, frame(random, grouped=False, layers=3))
    config["num_layers"] = config.pop("num_hidden_layers")
    config["ffn_hidden_size"] = config.pop("intermediate_size")
    experts = random.choice([2, 5])
    config |= {"n_routed_experts": experts, "expert_ffn_hidden_size": random.randint(1, 12)}
    config["moe_topk"] = 2
    config["head_dim"] = config["qk_rope_head_dim"]
    config["zero_expert_num"] = random.choice([0, 2])
    maybe(random, config, router_bias=flag(random))
    return config


GENERATORS = {
    "axk1": axk1,
    "axk2": axk2,
    "deepseek_v32": deepseek_v32,
    "glm4_moe_lite": glm4_moe_lite,
    "glm_moe_dsa": glm_moe_dsa,
    "longcat_flash": longcat_flash,
    "minicpm3": minicpm3,
    "sarvam_mla": sarvam_mla,
    "youtu": youtu,
}
