"""Small random configs for each attention-only model type, as their config.json would be written."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

Config = dict[str, Any]


def _common(random: Random, *, grouped: bool = True, head_dim: bool = True) -> Config:
    """Keys most families share. Heads of 4 elements or more, since rotary positions need pairs."""
    kv_heads = random.choice([1, 2, 3])
    heads = kv_heads * random.choice([1, 2, 4])
    config: Config = {
        "hidden_size": heads * random.choice([4, 8]),
        "num_hidden_layers": random.randint(1, 7),
        "num_attention_heads": heads,
        "intermediate_size": random.randint(1, 40),
        "vocab_size": random.randint(40, 90),
        "max_position_embeddings": random.choice([64, 256]),
        "tie_word_embeddings": random.random() < 0.5,
    }
    if grouped:
        config["num_key_value_heads"] = random.choice([kv_heads, heads])
    if head_dim and random.random() < 0.5:
        config["head_dim"] = random.choice([2, 4, 6, 16])
    return config


def _maybe(random: Random, config: Config, **values: Any) -> None:
    """Write each key in half of the configs."""
    for key, value in values.items():
        if random.random() < 0.5:
            config[key] = value


def _flag(random: Random) -> bool:
    return random.random() < 0.5


def _types(random: Random, config: Config, *kinds: str) -> list[str]:
    return [random.choice(kinds) for _ in range(config["num_hidden_layers"])]


def llama(random: Random) -> Config:
    config = _common(random)
    _maybe(random, config, attention_bias=_flag(random), mlp_bias=_flag(random))
    if _flag(random):
        del config["num_key_value_heads"]
    return config


def mistral(random: Random) -> Config:
    config = _common(random)
    _maybe(random, config, sliding_window=random.choice([None, 5, 12]))
    return config


def ministral(random: Random) -> Config:
    config = {"head_dim": 4, **_common(random)}  # transformers cannot build it without a stated head size
    _maybe(random, config, sliding_window=random.choice([5, 12]))
    _maybe(random, config, layer_types=_types(random, config, "sliding_attention", "full_attention"))
    return config


def mixtral(random: Random) -> Config:
    config = _common(random)
    _maybe(random, config, sliding_window=random.choice([None, 5]))
    config |= {"num_local_experts": random.randint(2, 5), "num_experts_per_tok": random.randint(1, 2)}
    return config


def qwen2(random: Random) -> Config:
    config = _common(random)
    _maybe(random, config, use_sliding_window=_flag(random), sliding_window=6, max_window_layers=random.randint(0, 4))
    if config.get("use_sliding_window"):
        _maybe(random, config, layer_types=_types(random, config, "sliding_attention", "full_attention"))
    return config


def qwen3(random: Random) -> Config:
    config = qwen2(random)
    _maybe(random, config, attention_bias=_flag(random))
    return config


def qwen_vl_text(random: Random) -> Config:
    config = qwen2(random)
    config.pop("head_dim", None)
    return config


def qwen3_vl_text(random: Random) -> Config:
    config = _common(random)
    _maybe(random, config, attention_bias=_flag(random))
    return config


def _qwen_mixture(random: Random, config: Config) -> Config:
    experts = random.choice([0, 2, 5])
    config |= {"moe_intermediate_size": random.randint(1, 20), "num_experts": experts}
    config["num_experts_per_tok"] = random.randint(1, 2)
    dense = random.choice([[], [0], [1, 2]])
    dense = [index for index in dense if index < config["num_hidden_layers"]]
    _maybe(random, config, decoder_sparse_step=random.randint(1, 3), mlp_only_layers=dense)
    return config


def qwen2_moe(random: Random) -> Config:
    config = _qwen_mixture(random, qwen2(random))
    config["shared_expert_intermediate_size"] = random.randint(1, 20)
    _maybe(random, config, qkv_bias=_flag(random))
    return config


def qwen3_moe(random: Random) -> Config:
    config = _qwen_mixture(random, _common(random))
    _maybe(random, config, attention_bias=_flag(random), use_sliding_window=_flag(random), sliding_window=5)
    return config


def qwen3_vl_moe_text(random: Random) -> Config:
    config = _qwen_mixture(random, _common(random))
    _maybe(random, config, attention_bias=_flag(random))
    return config


def gemma(random: Random) -> Config:
    config = _common(random)
    _maybe(random, config, attention_bias=_flag(random))
    return config


def gemma2(random: Random) -> Config:
    config = gemma(random)
    _maybe(random, config, sliding_window=random.choice([5, 7]))
    _maybe(random, config, layer_types=_types(random, config, "sliding_attention", "full_attention"))
    return config


def gemma3_text(random: Random) -> Config:
    config = gemma2(random)
    _maybe(random, config, sliding_window_pattern=random.randint(1, 4), use_bidirectional_attention=_flag(random))
    return config


def gpt_oss(random: Random) -> Config:
    config = _common(random)
    config |= {"num_local_experts": random.randint(2, 5), "num_experts_per_tok": random.randint(1, 2)}
    _maybe(random, config, attention_bias=_flag(random), sliding_window=random.choice([4, 9]))
    _maybe(random, config, layer_types=_types(random, config, "sliding_attention", "full_attention"))
    return config


def llama4_text(random: Random) -> Config:
    config = _common(random)
    layers = config["num_hidden_layers"]
    config |= {"num_local_experts": random.randint(1, 4), "intermediate_size_mlp": random.randint(1, 30)}
    _maybe(
        random,
        config,
        moe_layers=[index for index in range(layers) if _flag(random)],
        interleave_moe_layer_step=random.randint(1, 3),
        no_rope_layers=random.choice([[], [random.randint(0, 1) for _ in range(layers)]]),
        no_rope_layer_interval=random.randint(1, 4),
        attention_chunk_size=random.choice([None, 8]),
        attention_bias=_flag(random),
    )
    return config


def phi(random: Random) -> Config:
    config = _common(random)
    _maybe(random, config, qk_layernorm=_flag(random))
    return config


def phi3(random: Random) -> Config:
    config = _common(random)
    _maybe(random, config, sliding_window=random.choice([None, 6]))
    return config


def phimoe(random: Random) -> Config:
    config = _common(random)
    config |= {"num_local_experts": random.randint(2, 5)}
    _maybe(random, config, sliding_window=random.choice([None, 6]))
    _maybe(random, config, attention_bias=_flag(random), lm_head_bias=_flag(random))
    return config


def deepseek_v3(random: Random) -> Config:
    config = _common(random, head_dim=False)
    experts = random.choice([4, 8])
    config |= {
        "kv_lora_rank": random.choice([2, 6, 12]),
        "q_lora_rank": random.choice([None, 4, 8]),
        "qk_nope_head_dim": random.choice([2, 6, 8]),
        "qk_rope_head_dim": random.choice([2, 4]),
        "v_head_dim": random.randint(1, 8),
        "n_routed_experts": experts,
        "n_shared_experts": random.randint(1, 3),
        "moe_intermediate_size": random.randint(1, 12),
        "num_experts_per_tok": 2,
        "n_group": 2,
        "topk_group": 1,
    }
    _maybe(random, config, first_k_dense_replace=random.randint(0, 9), attention_bias=_flag(random))
    _maybe(random, config, num_nextn_predict_layers=random.randint(0, 1))
    return config


def deepseek_v2(random: Random) -> Config:
    config = deepseek_v3(random)
    config.pop("num_nextn_predict_layers", None)
    _maybe(random, config, mlp_bias=_flag(random))
    return config


def gpt2(random: Random) -> Config:
    heads = random.randint(1, 4)
    config: Config = {
        "n_embd": 4 * heads,
        "n_head": heads,
        "n_layer": random.randint(1, 4),
        "vocab_size": random.randint(40, 90),
        "n_positions": random.choice([32, 64]),
    }
    _maybe(random, config, n_inner=random.choice([None, 11]), tie_word_embeddings=_flag(random))
    return config


def gpt_neox(random: Random) -> Config:
    config = _common(random, grouped=False, head_dim=False)
    _maybe(random, config, attention_bias=_flag(random))
    return config


def opt(random: Random) -> Config:
    config = _common(random, grouped=False, head_dim=False)
    config["ffn_dim"] = config.pop("intermediate_size")
    _maybe(
        random,
        config,
        word_embed_proj_dim=random.choice([None, 6]),
        do_layer_norm_before=_flag(random),
        _remove_final_layer_norm=_flag(random),
        enable_bias=_flag(random),
        layer_norm_elementwise_affine=_flag(random),
    )
    return config


def bloom(random: Random) -> Config:
    heads = random.randint(1, 4)
    config: Config = {"vocab_size": random.randint(40, 90)}
    config[random.choice(["hidden_size", "n_embed"])] = 4 * heads
    config[random.choice(["n_head", "num_attention_heads"])] = heads
    config[random.choice(["n_layer", "num_hidden_layers"])] = random.randint(1, 4)
    _maybe(random, config, tie_word_embeddings=_flag(random))
    return config


def falcon(random: Random) -> Config:
    config = _common(random, grouped=False, head_dim=False)
    del config["intermediate_size"]
    heads = config["num_attention_heads"]
    _maybe(
        random,
        config,
        new_decoder_architecture=_flag(random),
        multi_query=_flag(random),
        parallel_attn=_flag(random),
        bias=_flag(random),
        num_ln_in_parallel_attn=random.choice([None, 1, 2]),
        ffn_hidden_size=random.choice([None, 10]),
    )
    if config.get("new_decoder_architecture"):
        _maybe(random, config, num_kv_heads=random.choice([n for n in range(1, heads + 1) if heads % n == 0]))
    return config


def glm4(random: Random) -> Config:
    config = _common(random)
    _maybe(random, config, attention_bias=_flag(random))
    return config


def glm4_moe(random: Random) -> Config:
    config = deepseek_v3(random)
    for key in ("kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"):
        del config[key]
    _maybe(random, config, use_qk_norm=_flag(random), head_dim=random.choice([4, 8]))
    return config


def cohere2(random: Random) -> Config:
    config = gemma2(random)
    _maybe(random, config, sliding_window_pattern=random.randint(1, 4))
    return config


def smollm3(random: Random) -> Config:
    config = llama(random)
    config.setdefault("num_key_value_heads", config["num_attention_heads"])
    layers = config["num_hidden_layers"]
    _maybe(
        random,
        config,
        use_sliding_window=_flag(random),
        sliding_window=6,
        no_rope_layers=[random.randint(0, 1) for _ in range(layers)],
        no_rope_layer_interval=random.randint(1, 4),
    )
    return config


def starcoder2(random: Random) -> Config:
    config = _common(random)
    _maybe(random, config, sliding_window=random.choice([None, 6]), use_bias=_flag(random))
    return config


def gpt_bigcode(random: Random) -> Config:
    config = gpt2(random)
    _maybe(random, config, multi_query=_flag(random))
    return config


def mpt(random: Random) -> Config:
    heads = random.choice([1, 2, 4])
    config: Config = {"d_model": 4 * heads, "n_heads": heads, "n_layers": random.randint(1, 4)}
    config |= {"vocab_size": random.randint(40, 90), "max_seq_len": 64}
    _maybe(random, config, tie_word_embeddings=_flag(random), attn_config={"alibi": True}, no_bias=True)
    return config


GENERATORS: dict[str, Callable[[Random], Config]] = {
    "bloom": bloom,
    "cohere2": cohere2,
    "deepseek_v2": deepseek_v2,
    "deepseek_v3": deepseek_v3,
    "falcon": falcon,
    "gemma": gemma,
    "gemma2": gemma2,
    "gemma3_text": gemma3_text,
    "glm4": glm4,
    "glm4_moe": glm4_moe,
    "gpt2": gpt2,
    "gpt_bigcode": gpt_bigcode,
    "gpt_neox": gpt_neox,
    "gpt_oss": gpt_oss,
    "llama": llama,
    "llama4_text": llama4_text,
    "ministral": ministral,
    "ministral3": mistral,
    "mistral": mistral,
    "mixtral": mixtral,
    "mpt": mpt,
    "olmo2": glm4,
    "opt": opt,
    "phi": phi,
    "phi3": phi3,
    "phimoe": phimoe,
    "qwen2": qwen2,
    "qwen2_moe": qwen2_moe,
    "qwen3": qwen3,
    "qwen3_moe": qwen3_moe,
    "smollm3": smollm3,
    "starcoder2": starcoder2,
}


def random_config(model_type: str, seed: int) -> Config:
    """One config of a type; equal arguments give equal configs."""
    return {"model_type": model_type, **GENERATORS[model_type](Random(f"{model_type} {seed}"))}
