"""Small random configs of models with a state of constant size, as their config.json is written."""

from __future__ import annotations

from random import Random
from typing import Any

from drawn_parts import deepseek_experts, flag, frame, latent, maybe, mlp_types, state_hybrid_types

Config = dict[str, Any]


def falcon_mamba(random: Random) -> Config:
    config: Config = {
        "hidden_size": random.choice([8, 24, 40]),
        "num_hidden_layers": random.randint(1, 4),
        "vocab_size": random.randint(40, 90),
    }
    maybe(
        random,
        config,
        state_size=random.randint(1, 9),
        expand=random.choice([1, 2, 3]),
        intermediate_size=random.choice([12, 20]),
        conv_kernel=random.choice([2, 3, 4]),
        time_step_rank=random.choice(["auto", 5]),
        use_bias=flag(random),
        use_conv_bias=flag(random),
        tie_word_embeddings=flag(random),
    )
    return config


def _delta_latent(random: Random) -> Config:
    config = latent(random, frame(random, grouped=False)) | deepseek_experts(random)
    config["num_experts"] = config.pop("n_routed_experts")
    config["num_shared_experts"] = config.pop("n_shared_experts")
    config["model_max_length"] = config.pop("max_position_embeddings")
    maybe(random, config, q_lora_rank=None, first_k_dense_replace=random.randint(0, 3))
    maybe(random, config, mlp_layer_types=mlp_types(random, config))
    return config


def kimi_linear(random: Random) -> Config:
    config = _delta_latent(random)
    layers = config["num_hidden_layers"]
    full = [index for index in range(1, layers + 1) if flag(random) or index == layers]
    heads = {"num_heads": random.randint(1, 3), "head_dim": random.choice([2, 4]), "short_conv_kernel_size": 3}
    lists = {"full_attn_layers": full, "kda_layers": [index for index in range(1, layers + 1) if index not in full]}
    if flag(random):
        config["linear_attn_config"] = heads | lists
    else:
        config |= {"linear_num_heads": 2, "linear_head_dim": 4}
        state_hybrid_types(random, config, "linear_attention")
    return config


def bailing_hybrid(random: Random) -> Config:
    config = _delta_latent(random) | {"head_dim": random.choice([2, 6])}
    maybe(
        random,
        config,
        layer_group_size=random.randint(1, 3),
        short_conv_kernel_size=random.choice([2, 3]),
        num_nextn_predict_layers=random.randint(0, 1),
    )
    state_hybrid_types(random, config, "linear_attention")
    return config


def minimax(random: Random) -> Config:
    config = frame(random)
    config |= {"num_local_experts": random.randint(2, 5), "num_experts_per_tok": random.randint(1, 2)}
    maybe(
        random,
        config,
        head_dim=random.choice([4, 8]),
        block_size=random.choice([4, 16]),
        sliding_window=5,
    )
    state_hybrid_types(random, config, "linear_attention", rule_from=1)
    return config


def lfm3(random: Random) -> Config:
    config = frame(random)
    maybe(
        random,
        config,
        head_dim=random.choice([4, 8]),
        conv_L_cache=random.choice([2, 3]),
        conv_bias=flag(random),
        attention_bias=flag(random),
        use_sandwich_norm=flag(random),
        use_attention_gate=flag(random),
        sliding_window=5,
    )
    state_hybrid_types(random, config, "conv", "sliding_attention")
    return config


def _delta(random: Random) -> Config:
    key_heads = random.choice([1, 2])
    config = {
        "linear_num_key_heads": key_heads,
        "linear_num_value_heads": key_heads * random.choice([1, 2, 3]),
        "linear_key_head_dim": random.choice([4, 8]),
        "linear_value_head_dim": random.choice([4, 6]),
    }
    maybe(random, config, linear_conv_kernel_dim=random.choice([2, 3]))
    return config


def lara_mini(random: Random) -> Config:
    config = frame(random) | _delta(random)
    del config["intermediate_size"]
    config |= {"num_experts": random.randint(2, 5), "num_experts_per_tok": random.randint(1, 2)}
    config |= {"moe_intermediate_size": random.randint(1, 12), "shared_expert_intermediate_size": random.randint(1, 9)}
    maybe(random, config, head_dim=random.choice([4, 8]), attention_bias=flag(random), sliding_window=5)
    state_hybrid_types(random, config, "linear_attention", "sliding_attention")
    return config


def olmo_hybrid(random: Random) -> Config:
    config = frame(random)
    config["num_hidden_layers"] = random.randint(2, 6)
    maybe(random, config, attention_bias=flag(random))
    if flag(random):
        config |= _delta(random)
    state_hybrid_types(random, config, "linear_attention", rule_from=2)
    if "layer_types" in config:
        config["layer_types"][0] = "linear_attention"  # the class asks for both kinds
    return config


GENERATORS = {
    "bailing_hybrid": bailing_hybrid,
    "falcon_mamba": falcon_mamba,
    "kimi_linear": kimi_linear,
    "lara_mini": lara_mini,
    "lfm3": lfm3,
    "minimax": minimax,
    "olmo_hybrid": olmo_hybrid,
}
