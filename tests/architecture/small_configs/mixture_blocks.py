"""Small random configs of mixtures of experts with grouped heads, as their config.json is written."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from small_configs.dense_blocks import Config, common, flag, maybe, stated_head, types


def experts(random: Random, key: str = "num_experts", per_token: str = "num_experts_per_tok") -> Config:
    return {key: random.randint(2, 5), per_token: random.randint(1, 2)}


def mlp_types(random: Random, config: Config) -> list[str]:
    return [random.choice(["dense", "sparse"]) for _ in range(config["num_hidden_layers"])]


def narrow(random: Random) -> Config:
    return {"moe_intermediate_size": random.randint(1, 20)}


def afmoe(random: Random) -> Config:
    config = stated_head(common(random)) | experts(random) | narrow(random)
    maybe(
        random,
        config,
        num_dense_layers=random.randint(0, 3),
        num_shared_experts=random.randint(1, 3),
        global_attn_every_n_layers=random.randint(1, 4),
        layer_types=types(random, config),
        attention_bias=flag(random),
    )
    return config | {"sliding_window": random.choice([4, 9])}


def aria_text(random: Random) -> Config:
    config = common(random) | experts(random, "moe_num_experts", "moe_topk")
    maybe(
        random,
        config,
        moe_num_shared_experts=random.randint(1, 3),
        attention_bias=flag(random),
        mlp_bias=flag(random),
    )
    return config


def cohere2_moe(random: Random) -> Config:
    config = stated_head(common(random)) | experts(random)
    maybe(
        random,
        config,
        attention_bias=flag(random),
        num_shared_experts=random.randint(0, 2),
        prefix_dense_intermediate_size=random.randint(1, 20),
        prefix_dense_sliding_window_pattern=random.randint(1, 3),
        sliding_window_pattern=random.randint(1, 4),
        layer_types=types(random, config),
        mlp_layer_types=mlp_types(random, config),
    )
    maybe(random, config, first_k_dense_replace=random.randint(0, config["num_hidden_layers"]))
    return config | {"sliding_window": random.choice([4, 9])}


def dbrx(random: Random) -> Config:
    kv_heads = random.choice([1, 2])
    heads = kv_heads * random.choice([1, 2, 4])
    return {
        "d_model": heads * random.choice([4, 8]),
        "n_layers": random.randint(1, 4),
        "n_heads": heads,
        "vocab_size": random.randint(40, 90),
        "max_seq_len": 64,
        "attn_config": {"kv_n_heads": kv_heads, "rope_theta": 10000.0, "clip_qkv": 8},
        "ffn_config": {"ffn_hidden_size": random.randint(1, 20), **experts(random, "moe_num_experts", "moe_top_k")},
    }


def doge(random: Random) -> Config:
    config = common(random)
    maybe(random, config, attention_bias=flag(random), mlp_bias=flag(random), sliding_window=random.choice([4, 9]))
    if flag(random):
        config |= {"is_moe": True, "num_experts": random.choice([9, 20]), "num_experts_per_tok": random.randint(1, 3)}
    return config


def dots1(random: Random) -> Config:
    config = common(random) | experts(random, random.choice(["n_routed_experts", "num_local_experts"]))
    config |= narrow(random) | {"n_shared_experts": random.randint(1, 2)}
    maybe(
        random,
        config,
        attention_bias=flag(random),
        first_k_dense_replace=random.randint(0, 3),
        layer_types=types(random, config),
        max_window_layers=random.randint(0, 4),
    )
    if "layer_types" in config or flag(random):
        return config | {"sliding_window": random.choice([4, 9])}
    return config | {"sliding_window": None}


def ernie4_5_moe(random: Random) -> Config:
    config = common(random) | narrow(random)
    config |= experts(
        random, random.choice(["moe_num_experts", "num_experts"]), random.choice(["moe_k", "num_experts_per_tok"])
    )
    maybe(
        random,
        config,
        use_bias=flag(random),
        moe_num_shared_experts=random.randint(0, 2),
        moe_layer_start_index=random.randint(0, 2),
        moe_layer_end_index=random.randint(-1, 8),
        moe_layer_interval=random.randint(1, 3),
    )
    return config


def exaone_moe(random: Random) -> Config:
    config = common(random) | experts(random) | narrow(random)
    maybe(
        random,
        config,
        num_shared_experts=random.randint(1, 2),
        first_k_dense_replace=random.randint(0, 3),
        layer_types=types(random, config),
        mlp_layer_types=mlp_types(random, config),
        sliding_window_pattern=random.randint(1, 4),
    )
    return config | {"sliding_window": random.choice([4, 9])}


def flex_olmo(random: Random) -> Config:
    config = common(random) | experts(random, random.choice(["num_experts", "num_local_experts"]))
    maybe(random, config, attention_bias=flag(random))
    return config


def flint(random: Random) -> Config:
    config = stated_head(common(random)) | experts(random) | narrow(random)
    config["shared_expert_intermediate_size"] = random.randint(1, 20)
    maybe(
        random,
        config,
        attention_bias=flag(random),
        layer_types=types(random, config),
        mlp_only_layers=random.choice([[], [1, 3]]),
        decoder_sparse_step=random.randint(1, 3),
    )
    return config | {"sliding_window": random.choice([4, 9])}


def granitemoe_swa(random: Random) -> Config:
    config = common(random) | experts(random, "num_local_experts")
    maybe(
        random,
        config,
        attention_bias=flag(random),
        layer_types=types(random, config),
        shared_intermediate_size=random.choice([0, 7]),
    )
    return config | {"sliding_window": random.choice([4, 9])}


def hunyuan_v1_moe(random: Random) -> Config:
    config = stated_head(common(random)) | {random.choice(["num_experts", "num_local_experts"]): random.randint(2, 5)}
    maybe(random, config, attention_bias=flag(random))
    chosen = [random.randint(1, 2) for _ in range(config["num_hidden_layers"])]
    maybe(random, config, moe_topk=random.choice([chosen, 2]))
    return config


def hy_v3(random: Random) -> Config:
    config = stated_head(common(random)) | narrow(random)
    config |= experts(random, random.choice(["num_experts", "num_local_experts"]))
    maybe(
        random,
        config,
        attention_bias=flag(random),
        mlp_bias=flag(random),
        num_shared_experts=random.randint(1, 2),
        mlp_layer_types=mlp_types(random, config),
    )
    return config


def jetmoe(random: Random) -> Config:
    config = common(random, head_dim=False) | experts(random, "num_local_experts")
    config["num_attention_heads"] = config["num_key_value_heads"] * config["num_experts_per_tok"]
    maybe(random, config, num_attention_heads=config.pop("num_attention_heads"))
    return config | {random.choice(["kv_channels", "head_dim"]): random.choice([4, 6])}


GENERATORS: dict[str, Callable[[Random], Config]] = {
    "afmoe": afmoe,
    "aria_text": aria_text,
    "cohere2_moe": cohere2_moe,
    "dbrx": dbrx,
    "doge": doge,
    "dots1": dots1,
    "ernie4_5_moe": ernie4_5_moe,
    "exaone_moe": exaone_moe,
    "flex_olmo": flex_olmo,
    "flint": flint,
    "granitemoe_swa": granitemoe_swa,
    "hunyuan_v1_moe": hunyuan_v1_moe,
    "hy_v3": hy_v3,
    "jetmoe": jetmoe,
}
