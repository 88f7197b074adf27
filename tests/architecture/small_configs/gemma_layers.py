"""Small random configs of Gemma's models with shared caches, as their config.json is written."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from small_configs.dense_blocks import Config, common, flag, maybe, types


def shared(random: Random, config: Config) -> Config:
    """Every type of layer keeps one with a cache of its own."""
    kinds = config.get("layer_types")
    layers = config["num_hidden_layers"]
    if kinds is None:
        return {"num_kv_shared_layers": 0}
    kinds = [*kinds[:-1], "full_attention"]
    last_needed = max(kinds.index(kind) for kind in set(kinds))
    return {"num_kv_shared_layers": random.randint(0, layers - 1 - last_needed)}


def base(random: Random) -> Config:
    config = common(random, head_dim=False)
    config |= {"head_dim": random.choice([4, 8]), "sliding_window": random.choice([4, 9])}
    maybe(random, config, attention_bias=flag(random))
    return config


def gemma3n_text(random: Random) -> Config:
    config = base(random)
    if flag(random):
        config["layer_types"] = [*types(random, config)[:-1], "full_attention"]
    if flag(random):
        config["intermediate_size"] = [random.randint(1, 40) for _ in range(config["num_hidden_layers"])]
    return config | {
        "vocab_size_per_layer_input": 40,
        "hidden_size_per_layer_input": random.randint(2, 8),
        "laurel_rank": random.randint(1, 6),
        "altup_num_inputs": random.randint(1, 4),
        **shared(random, config),
    }


def gemma4_base(random: Random) -> Config:
    config = base(random)
    heads = config["num_attention_heads"]
    maybe(
        random,
        config,
        layer_types=types(random, config),
        attention_k_eq_v=flag(random),
        num_global_key_value_heads=random.choice([None, 1, heads]),
        use_double_wide_mlp=flag(random),
        use_bidirectional_attention=random.choice([None, "all", "vision"]),
    )
    return config | {"global_head_dim": random.choice([8, 16])}


def gemma4_unified_text(random: Random) -> Config:
    config = gemma4_base(random)
    return config | shared(random, config)


def gemma4_text(random: Random) -> Config:
    config = gemma4_unified_text(random)
    config |= {"vocab_size_per_layer_input": 40, "hidden_size_per_layer_input": random.choice([0, 4, 6])}
    if not config["hidden_size_per_layer_input"]:  # transformers 5.24 cannot run shared caches without them
        config["num_kv_shared_layers"] = 0
    if flag(random):
        config |= {"enable_moe_block": True, "num_experts": random.randint(2, 5), "top_k_experts": 2}
        config["moe_intermediate_size"] = random.randint(1, 20)
    return config


def draft(random: Random, text: Config) -> Config:
    config: Config = {"text_config": text, "backbone_hidden_size": random.randint(4, 20)}
    if flag(random):
        text["num_kv_shared_layers"] = text["num_hidden_layers"]
    maybe(random, config, use_ordered_embeddings=flag(random), tie_word_embeddings=flag(random))
    return config | {"num_centroids": 5}


def gemma4_assistant(random: Random) -> Config:
    text = {"model_type": "gemma4_text", **gemma4_base(random)}
    text |= {"hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 0, "use_double_wide_mlp": False}
    return draft(random, text)


def gemma4_unified_assistant(random: Random) -> Config:
    return draft(random, {"model_type": "gemma4_unified_text", **gemma4_base(random)})


GENERATORS: dict[str, Callable[[Random], Config]] = {
    "gemma3n_text": gemma3n_text,
    "gemma4_assistant": gemma4_assistant,
    "gemma4_text": gemma4_text,
    "gemma4_unified_assistant": gemma4_unified_assistant,
    "gemma4_unified_text": gemma4_unified_text,
}
