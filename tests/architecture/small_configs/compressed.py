"""Small random configs of models that compress their cache or choose from it, as their config.json is written."""

from __future__ import annotations

from random import Random
from typing import Any

from drawn_parts import flag, frame, maybe, state_hybrid_types, types

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


def qwen4_exp_text(random: Random) -> Config:
    config = frame(random)
    del config["intermediate_size"]
    key_heads = random.choice([1, 2])
    config |= {
        "head_dim": random.choice([4, 8]),
        "linear_num_key_heads": key_heads,
        "linear_num_value_heads": key_heads * random.choice([1, 2]),
        "linear_key_head_dim": random.choice([4, 8]),
        "linear_value_head_dim": random.choice([4, 6]),
        "moe_intermediate_size": random.randint(1, 9),
        "shared_expert_intermediate_size": random.randint(1, 9),
        "num_experts": random.randint(2, 4),
        "num_experts_per_tok": random.randint(1, 2),
        "hc_count": random.choice([2, 3]),
        "hc_lowrank": random.choice([2, 5]),
        "indexer_n_heads": random.randint(1, 2),
        "indexer_kv_heads": 1,
        "indexer_head_dim": 8,
        "indexer_budget": 4,
        "indexer_compress_ratio": 2,
    }
    state_hybrid_types(random, config, "linear_attention")
    maybe(random, config, full_attention_interval=2, attention_bias=flag(random), linear_conv_kernel_dim=3)
    linear = [index + 1 for index, kind in enumerate(config.get("layer_types", ())) if kind == "linear_attention"]
    if linear:
        config["ple_layer_ids"] = random.sample(linear, random.randint(0, len(linear)))
        config |= {"heads_per_ngram": 2, "ngram_size": random.choice([2, 3]), "ple_embed_dim": 8}
        config["ngram_vocab_size_base"] = random.choice([20, 97, 1000])
        maybe(random, config, make_ngram_vocab_size_divisible_by=5, ple_conv_kernel_size=random.choice([2, 3]))
    return config


def qwen4_exp(random: Random) -> Config:
    text = qwen4_exp_text(random)
    text |= {"eos_token_id": 2, "pad_token_id": 0}
    return {"text_config": text, "tie_word_embeddings": text.get("tie_word_embeddings", False)}


GENERATORS = {
    "deepseek_v4": deepseek_v4,
    "qwen4_exp": qwen4_exp,
    "qwen4_exp_text": qwen4_exp_text,
}
