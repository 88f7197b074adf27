"""Small random configs with latent attention and indexers, or with layers that run several times."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from small_configs.dense_blocks import Config, common, flag, maybe, stated_head, types
from small_configs.mixture_blocks import experts, mlp_types, narrow


def latent(random: Random) -> Config:
    config = common(random, head_dim=False) | narrow(random) | experts(random, "n_routed_experts")
    config["num_key_value_heads"] = config["num_attention_heads"]
    return config | {
        "q_lora_rank": random.choice([4, 10]),
        "kv_lora_rank": random.choice([4, 12]),
        "qk_nope_head_dim": random.choice([4, 6]),
        "qk_rope_head_dim": random.choice([2, 4]),
        "v_head_dim": random.choice([4, 6]),
        "index_head_dim": random.choice([4, 6]),
        "index_n_heads": random.randint(1, 3),
    }


def hy_v4(random: Random) -> Config:
    config = latent(random)
    kinds = ["full", *(random.choice(["full", "shared"]) for _ in range(config["num_hidden_layers"] - 1))]
    maybe(
        random,
        config,
        attention_bias=flag(random),
        hc_mult=random.randint(1, 4),
        indexer_types=kinds,
        mlp_layer_types=mlp_types(random, config),
        n_shared_experts=random.randint(1, 2),
    )
    return config


def dots3_note_text(random: Random) -> Config:
    config = latent(random) | {"head_dim": 8, "n_routed_experts": random.randint(2, 5)}
    heads = random.choice([1, 2])
    config |= {
        "swa_num_attention_heads": heads,
        "swa_num_key_value_heads": heads,
        "swa_q_lora_rank": random.choice([4, 6]),
        "swa_kv_lora_rank": random.choice([4, 16]),
        "swa_head_dim": 8,
        "swa_qk_nope_head_dim": random.choice([2, 4]),
        "swa_v_head_dim": random.choice([4, 6]),
        random.choice(["sliding_window", "sliding_window_size"]): random.choice([4, 9]),
        random.choice(["shared_experts_intermediate_size", "moe_shared_expert_intermediate_size"]): 7,
    }
    layers = config["num_hidden_layers"]
    kinds = ["full_attention", "indexed_attention", "sliding_attention"]
    maybe(
        random,
        config,
        attention_bias=flag(random),
        first_k_dense_replace=random.randint(0, 3),
        layer_types=[random.choice(kinds) for _ in range(layers)],
        mlp_layer_types=mlp_types(random, config),
        moe_layer_freq=random.choice([1, 2, [random.randint(0, 1) for _ in range(layers)]]),
        n_shared_experts=random.randint(1, 2),
        use_dsa=flag(random),
        use_sliding_window=flag(random),
    )
    return config


def dots3_note(random: Random) -> Config:
    text = dots3_note_text(random) | {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    sides = {
        "vision_config": {"num_hidden_layers": 1, "mlp_layer_types": ["dense"], "adapter_out_dim": text["hidden_size"]},
        "audio_config": {"adapter_out_dim": text["hidden_size"]},
    }
    if flag(random):  # older files keep the text's keys at the top
        return text | sides
    config: Config = {"text_config": text, **sides}
    maybe(random, config, tie_word_embeddings=flag(random))
    return config


def dory(random: Random) -> Config:
    config = stated_head(common(random))
    layers = config["num_hidden_layers"]
    first = random.randint(0, layers)
    last = random.randint(0, layers - first)
    config |= {"n_input_layers": first, "n_output_layers": last, "sliding_window": random.choice([4, 9])}
    maybe(
        random,
        config,
        attention_bias=flag(random),
        mlp_bias=flag(random),
        n_recurrent_layers=random.choice([None, layers - first - last]),
        n_recurrent_loops=random.randint(1, 4),
        recurrent_kv_cache_mode=random.choice(["per_loop", "last_loop"]),
        layer_types=types(random, config),
    )
    if "layer_types" in config and flag(random):  # as published: an MLP is a layer of its own
        config["layer_types"] = [part for kind in config["layer_types"] for part in (kind, "mlp")]
        counts = ("num_hidden_layers", "n_input_layers", "n_output_layers", "n_recurrent_layers")
        config |= {key: 2 * config[key] for key in counts if config.get(key) is not None}
    return config


GENERATORS: dict[str, Callable[[Random], Config]] = {
    "dory": dory,
    "dots3_note": dots3_note,
    "dots3_note_text": dots3_note_text,
    "hy_v4": hy_v4,
}
