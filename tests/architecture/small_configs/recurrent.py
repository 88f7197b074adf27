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


def _zamba(random: Random) -> Config:
    config = frame(random, grouped=False)
    layers = config["num_hidden_layers"] = random.randint(3, 8)
    config["num_key_value_heads"] = random.choice([1, config["num_attention_heads"]])
    maybe(random, config, mamba_expand=random.choice([1, 2, 3]), mamba_d_state=random.randint(1, 9))
    maybe(random, config, mamba_d_conv=random.choice([2, 3]))
    if flag(random):
        kinds = [random.choice(["linear_attention", "mamba", "hybrid"]) for _ in range(layers - 1)]
        config["layers_block_type"] = [*kinds, "hybrid"]
        config["layers_block_type"][0] = "hybrid"  # a block that nothing shares is an error of the class
    return config


def zamba(random: Random) -> Config:
    config = _zamba(random)
    config["num_hidden_layers"] = max(config["num_hidden_layers"], 4)
    if len(config.get("layers_block_type", ())) == 3:
        config["layers_block_type"].append("mamba")
    config |= {"attn_layer_period": random.randint(1, 3), "attn_layer_offset": 0}
    maybe(
        random,
        config,
        mamba_dt_rank=random.choice(["auto", 3]),
        mamba_conv_bias=flag(random),
        mamba_proj_bias=flag(random),
        n_mamba_heads=random.choice([1, 4]),
    )
    return config


def zamba2(random: Random) -> Config:
    config = _zamba(random)
    config["n_mamba_heads"] = random.choice([2, 4])
    layers = config["num_hidden_layers"]
    config.setdefault("layers_block_type", [random.choice(["mamba", "hybrid"]) for _ in range(layers - 1)] + ["hybrid"])
    maybe(
        random,
        config,
        add_bias_linear=flag(random),
        num_mem_blocks=random.randint(1, 3),
        use_shared_attention_adapter=flag(random),
        adapter_rank=random.randint(1, 4),
        mamba_ngroups=random.choice([1, 2]),
        use_mem_rope=flag(random),
    )
    if config.get("use_shared_attention_adapter"):  # the adapters have the width of all heads
        config["num_key_value_heads"] = config["num_attention_heads"]
    return config


def zaya(random: Random) -> Config:
    config = frame(random)
    del config["intermediate_size"]
    config |= {"num_experts": random.randint(2, 5), "moe_intermediate_size": random.randint(1, 12)}
    maybe(
        random,
        config,
        head_dim=random.choice([4, 8]),
        attention_bias=flag(random),
        lm_head_bias=flag(random),
        router_hidden_size=random.choice([4, 7]),
        cca_time0=random.randint(2, 3),
        cca_time1=random.randint(1, 3),
    )
    if flag(random):
        config["sliding_window"] = 5
        config["layer_types"] = [
            random.choice(["hybrid", "hybrid_sliding"]) for _ in range(config["num_hidden_layers"])
        ]
    return config


def recurrent_gemma(random: Random) -> Config:
    config = frame(random)
    del config["max_position_embeddings"]
    config["intermediate_size"] += 1
    config["num_hidden_layers"] = random.randint(3, 7)
    heads = config["num_attention_heads"]
    maybe(
        random,
        config,
        lru_width=heads * random.choice([4, 6]),
        attention_window_size=5,
        conv1d_width=random.choice([2, 3]),
        attention_bias=flag(random),
        block_types=random.choice([["attention"], ["recurrent", "attention"], ["attention", "recurrent"]]),
    )
    return config


def xlstm(random: Random) -> Config:
    heads = random.choice([1, 2, 4])
    config: Config = {
        "num_heads": heads,
        "vocab_size": random.randint(40, 90),
        random.choice(["num_hidden_layers", "num_blocks"]): 32,
        "hidden_size": random.choice([64, 128]),
        "qk_dim_factor": random.choice([1.0, 2.0]),
    }
    if flag(random):
        config["num_hidden_layers"] = config["num_blocks"] = random.randint(1, 3)
    config["embedding_dim"] = config["hidden_size"]
    maybe(
        random,
        config,
        use_bias=flag(random),
        weight_mode="single",
        v_dim_factor=random.choice([1.0, 2.0]),
        ffn_proj_factor=random.choice([1.0, 1.3]),
        ffn_round_up_to_multiple_of=random.choice([1, 8]),
        tie_word_embeddings=flag(random),
    )
    return config


GENERATORS = {
    "bailing_hybrid": bailing_hybrid,
    "falcon_mamba": falcon_mamba,
    "kimi_linear": kimi_linear,
    "lara_mini": lara_mini,
    "lfm3": lfm3,
    "minimax": minimax,
    "olmo_hybrid": olmo_hybrid,
    "recurrent_gemma": recurrent_gemma,
    "xlstm": xlstm,
    "zamba": zamba,
    "zamba2": zamba2,
    "zaya": zaya,
}
