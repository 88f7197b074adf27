"""Small random configs of models that compress their cache or choose from it, as their config.json is written."""

from __future__ import annotations

from random import Random
from typing import Any

from drawn_parts import flag, maybe, types

Config = dict[str, Any]
RATIOS = {0: "sliding_attention", 4: "compressed_sparse_attention", 128: "heavily_compressed_attention"}


def deepseek_v4(random: Random) -> Config:
    groups = random.choice([1, 2])
    config: Config = {
        "hidden_size": random.choice([8, 12]),
        "num_hidden_layers": random.randint(1, 5),
        "num_attention_heads": groups * random.choice([1, 2]),
        "head_dim": random.choice([4, 8]),
        "qk_rope_head_dim": 2,
        "q_lora_rank": random.choice([3, 6]),
        "o_groups": groups,
        "o_lora_rank": random.choice([2, 5]),
        "vocab_size": random.randint(40, 90),
        "max_position_embeddings": 64,
        "moe_intermediate_size": random.randint(1, 9),
        "n_routed_experts": random.choice([2, 4]),
        "num_experts_per_tok": random.randint(1, 2),
        "hc_mult": random.choice([2, 3]),
        "sliding_window": random.choice([4, 7]),
        "index_n_heads": random.randint(1, 2),
        "index_head_dim": random.choice([4, 6]),
        "index_topk": 2,
    }
    maybe(
        random,
        config,
        tie_word_embeddings=flag(random),
        mlp_bias=flag(random),
        num_hash_layers=random.randint(0, 3),
        mlp_layer_types=types(random, config, "moe", "hash_moe"),
        compress_rate_hca=random.choice([3, 5]),
        compress_rate_csa=random.choice([2, 5]),
    )
    if flag(random):
        config["compress_ratios"] = [random.choice(list(RATIOS)) for _ in range(config["num_hidden_layers"] + 1)]
    else:
        maybe(random, config, layer_types=types(random, config, *RATIOS.values()))
    return config


GENERATORS = {"deepseek_v4": deepseek_v4}
