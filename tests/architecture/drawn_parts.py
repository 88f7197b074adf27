"""Parts that the small random configs of several families share."""

from __future__ import annotations

from random import Random
from typing import Any

Config = dict[str, Any]


def flag(random: Random) -> bool:
    return random.random() < 0.5


def maybe(random: Random, config: Config, **values: Any) -> None:
    """Write each key in half of the configs."""
    for key, value in values.items():
        if flag(random):
            config[key] = value


def frame(random: Random, *, grouped: bool = True, layers: int = 6) -> Config:
    """Keys that most families share. Heads of 4 elements or more, since rotary positions need pairs."""
    kv_heads = random.choice([1, 2, 3])
    heads = kv_heads * random.choice([1, 2, 4])
    config: Config = {
        "hidden_size": heads * random.choice([4, 8]),
        "num_hidden_layers": random.randint(1, layers),
        "num_attention_heads": heads,
        "intermediate_size": random.randint(1, 40),
        "vocab_size": random.randint(40, 90),
        "max_position_embeddings": 64,
    }
    maybe(random, config, tie_word_embeddings=flag(random))
    if grouped:
        config["num_key_value_heads"] = random.choice([kv_heads, heads])
    return config


def latent(random: Random, config: Config) -> Config:
    """Keys of latent attention."""
    config |= {
        "num_key_value_heads": config["num_attention_heads"],
        "kv_lora_rank": random.choice([2, 6, 12]),
        "q_lora_rank": random.choice([4, 8]),
        "qk_nope_head_dim": random.choice([2, 6, 8]),
        "qk_rope_head_dim": random.choice([2, 4]),
        "v_head_dim": random.randint(1, 8),
    }
    maybe(random, config, attention_bias=flag(random))
    return config


def deepseek_experts(random: Random) -> Config:
    """Keys of DeepSeek's experts, in two groups."""
    return {
        "n_routed_experts": random.choice([4, 8]),
        "n_shared_experts": random.randint(1, 3),
        "moe_intermediate_size": random.randint(1, 12),
        "num_experts_per_tok": 2,
        "n_group": 2,
        "topk_group": 1,
    }


def mlp_types(random: Random, config: Config) -> list[str]:
    """Dense or sparse for each layer."""
    return types(random, config, "dense", "sparse")


def types(random: Random, config: Config, *kinds: str) -> list[str]:
    """One of the kinds for each layer."""
    return [random.choice(kinds) for _ in range(config["num_hidden_layers"])]


def state_hybrid_types(random: Random, config: Config, *kinds: str, rule_from: int = 6) -> None:
    """State the kind of every layer, the last in full; else, with `rule_from` layers, leave it to the class.

    transformers counts the tokens of a hybrid model in its attention layers, so that one is needed.
    """
    if flag(random) or config["num_hidden_layers"] < rule_from:
        config["layer_types"] = [*types(random, config, *kinds, "full_attention")[1:], "full_attention"]
