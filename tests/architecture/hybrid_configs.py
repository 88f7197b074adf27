"""Small random configs for each model type with a recurrent state (and Granite), as their config.json is written."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

Config = dict[str, Any]


def _flag(random: Random) -> bool:
    return random.random() < 0.5


def _maybe(random: Random, config: Config, **values: Any) -> None:
    """Write each key in half of the configs."""
    for key, value in values.items():
        if _flag(random):
            config[key] = value


def _common(random: Random, *, head_dim: bool = True) -> Config:
    kv_heads = random.choice([1, 2])
    heads = kv_heads * random.choice([1, 2, 4])
    config: Config = {
        "hidden_size": heads * random.choice([4, 8]),
        "num_hidden_layers": random.randint(1, 9),
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "intermediate_size": random.randint(1, 40),
        "vocab_size": random.randint(40, 90),
    }
    _maybe(random, config, tie_word_embeddings=_flag(random), max_position_embeddings=64)
    if head_dim:
        _maybe(random, config, head_dim=random.choice([4, 8, 16]))
    return config


def _types(random: Random, config: Config, *kinds: str) -> list[str]:
    return [random.choice(kinds) for _ in range(config["num_hidden_layers"])]


def _experts(random: Random, *, minimum: int = 2) -> Config:
    experts = random.randint(minimum, 5)
    return {"num_experts": experts, "num_experts_per_tok": random.randint(1, max(1, min(2, experts)))}


def _delta(random: Random, config: Config) -> Config:
    key_heads = random.choice([1, 2])
    config |= {
        "linear_num_key_heads": key_heads,
        "linear_num_value_heads": key_heads * random.choice([1, 2, 3]),
        "linear_key_head_dim": random.choice([4, 8]),
        "linear_value_head_dim": random.choice([4, 6]),
    }
    _maybe(
        random,
        config,
        linear_conv_kernel_dim=random.choice([2, 3, 4]),
        attention_bias=_flag(random),
        full_attention_interval=random.randint(1, 4),
        layer_types=_types(random, config, "linear_attention", "full_attention"),
    )
    return config


def qwen3_next(random: Random) -> Config:
    config = _delta(random, _common(random)) | _experts(random, minimum=0)
    config |= {
        "moe_intermediate_size": random.randint(1, 20),
        "shared_expert_intermediate_size": random.randint(1, 20),
    }
    dense = random.choice([[], [0], [1, 2]])
    dense = [index for index in dense if index < config["num_hidden_layers"]]
    _maybe(random, config, decoder_sparse_step=random.randint(1, 3), mlp_only_layers=dense)
    return config


def qwen3_5_text(random: Random) -> Config:
    return _delta(random, _common(random))


def qwen3_5_moe_text(random: Random) -> Config:
    config = _delta(random, _common(random)) | _experts(random)
    del config["intermediate_size"]
    config |= {
        "moe_intermediate_size": random.randint(1, 20),
        "shared_expert_intermediate_size": random.randint(1, 20),
    }
    return config


def mamba(random: Random) -> Config:
    config: Config = {
        "hidden_size": random.choice([8, 24, 40]),
        "num_hidden_layers": random.randint(1, 4),
        "vocab_size": random.randint(40, 90),
    }
    _maybe(
        random,
        config,
        state_size=random.randint(1, 9),
        expand=random.choice([1, 2, 3]),
        conv_kernel=random.choice([2, 3, 4]),
        time_step_rank=random.choice(["auto", 5]),
        use_bias=_flag(random),
        use_conv_bias=_flag(random),
        tie_word_embeddings=_flag(random),
    )
    return config


def mamba2(random: Random) -> Config:
    config = mamba(random)
    config.pop("time_step_rank", None)
    inner = config.get("expand", 2) * config["hidden_size"]
    heads = random.choice([number for number in (1, 2, 4, 8) if inner % number == 0])
    groups = random.choice([number for number in (1, 2) if heads % number == 0])
    return config | {"num_heads": heads, "head_dim": inner // heads, "n_groups": groups}


def jamba(random: Random) -> Config:
    config = _common(random) | _experts(random, minimum=1)
    period, other = random.randint(1, 4), random.randint(1, 3)
    config |= {
        "attn_layer_period": period,
        "attn_layer_offset": random.randrange(period),
        "expert_layer_period": other,
        "expert_layer_offset": random.randrange(other),
    }
    _maybe(
        random,
        config,
        mamba_d_state=random.randint(1, 9),
        mamba_d_conv=random.choice([2, 3, 4]),
        mamba_expand=random.choice([1, 2]),
        mamba_dt_rank=random.choice(["auto", 3]),
        mamba_conv_bias=_flag(random),
        mamba_proj_bias=_flag(random),
    )
    return config


def _mamba2_keys(random: Random, config: Config, inner: int) -> Config:
    heads = random.choice([number for number in (1, 2, 4, 8) if inner % number == 0])
    config["mamba_n_heads"] = heads
    _maybe(
        random,
        config,
        mamba_d_head=random.choice(["auto", inner // heads]),
        mamba_n_groups=random.choice([number for number in (1, 2) if heads % number == 0]),
        mamba_d_state=random.choice([2, 6]),
        mamba_d_conv=random.choice([2, 3, 4]),
        mamba_conv_bias=_flag(random),
        mamba_proj_bias=_flag(random),
        attention_bias=_flag(random),
    )
    return config


def falcon_h1(random: Random) -> Config:
    config = _common(random)
    inner = random.choice([None, 24, 32])
    config["mamba_d_ssm"] = inner
    config = _mamba2_keys(random, config, inner or 2 * config["hidden_size"])
    _maybe(random, config, projectors_bias=_flag(random), mamba_rms_norm=_flag(random), mlp_bias=_flag(random))
    return config


def bamba(random: Random) -> Config:
    config = _common(random)
    config = _mamba2_keys(random, config, 2 * config["hidden_size"])
    layers = range(config["num_hidden_layers"])
    _maybe(random, config, attn_layer_indices=[index for index in layers if _flag(random)], mlp_bias=_flag(random))
    return config


def granitemoehybrid(random: Random) -> Config:
    config = _common(random)
    config = _mamba2_keys(random, config, 2 * config["hidden_size"])
    config |= {
        "shared_intermediate_size": random.randint(1, 20),
        "num_local_experts": random.choice([0, 2, 4]),
        "num_experts_per_tok": random.randint(1, 2),
    }
    _maybe(random, config, layer_types=_types(random, config, "mamba", "attention"), position_embedding_type="rope")
    return config


def granite(random: Random) -> Config:
    config = _common(random)
    _maybe(random, config, attention_bias=_flag(random), mlp_bias=_flag(random))
    return config


def granitemoe(random: Random) -> Config:
    config = _common(random) | {"num_local_experts": random.randint(2, 5), "num_experts_per_tok": random.randint(1, 2)}
    _maybe(random, config, attention_bias=_flag(random))
    return config


def granitemoeshared(random: Random) -> Config:
    config = granitemoe(random)
    _maybe(random, config, shared_intermediate_size=random.choice([0, 7]))
    return config


def nemotron_h(random: Random) -> Config:
    config = _common(random)
    layers = config["num_hidden_layers"]
    heads = random.choice([2, 4])
    config |= {
        "mamba_num_heads": heads,
        "mamba_head_dim": random.choice([4, 8]),
        "ssm_state_size": random.choice([2, 6]),
        "n_routed_experts": random.choice([2, 4]),
        "num_experts_per_tok": random.randint(1, 2),
        "moe_intermediate_size": random.randint(1, 20),
        "moe_shared_expert_intermediate_size": random.randint(1, 20),
        random.choice(["n_groups", "mamba_n_groups"]): random.choice([1, 2]),
    }
    if _flag(random):
        config["hybrid_override_pattern"] = "".join(random.choice("M*-E") for _ in range(layers))
    else:
        config["layers_block_type"] = _types(random, config, "mamba", "full_attention", "mlp", "moe")
    _maybe(
        random,
        config,
        moe_latent_size=random.choice([None, 6]),
        mlp_bias=_flag(random),
        use_bias=_flag(random),
        use_conv_bias=_flag(random),
        conv_kernel=random.choice([2, 3, 4]),
    )
    return config


def lfm2(random: Random) -> Config:
    config = _common(random)
    layers = range(config["num_hidden_layers"])
    _maybe(
        random,
        config,
        conv_L_cache=random.choice([2, 3, 4]),
        conv_bias=_flag(random),
        block_auto_adjust_ff_dim=_flag(random),
        block_ffn_dim_multiplier=random.choice([1.0, 1.3, 2]),
        block_multiple_of=random.choice([1, 8, 32]),
        full_attn_idxs=[index for index in layers if _flag(random)],
    )
    if "full_attn_idxs" not in config:
        _maybe(random, config, layer_types=_types(random, config, "conv", "full_attention"))
    return config


def lfm2_moe(random: Random) -> Config:
    config = _common(random) | _experts(random)
    config |= {
        "moe_intermediate_size": random.randint(1, 20),
        "num_dense_layers": random.randint(0, 3),
        "layer_types": _types(random, config, "conv", "full_attention"),
    }
    _maybe(random, config, conv_L_cache=random.choice([2, 4]), conv_bias=_flag(random), use_expert_bias=_flag(random))
    return config


GENERATORS: dict[str, Callable[[Random], Config]] = {
    "bamba": bamba,
    "falcon_h1": falcon_h1,
    "granite": granite,
    "granitemoe": granitemoe,
    "granitemoehybrid": granitemoehybrid,
    "granitemoeshared": granitemoeshared,
    "jamba": jamba,
    "lfm2": lfm2,
    "lfm2_moe": lfm2_moe,
    "mamba": mamba,
    "mamba2": mamba2,
    "nemotron_h": nemotron_h,
    "qwen3_5_moe_text": qwen3_5_moe_text,
    "qwen3_5_text": qwen3_5_text,
    "qwen3_next": qwen3_next,
}


def hybrid_config(model_type: str, seed: int) -> Config:
    """One config of a type; equal arguments give equal configs."""
    return {"model_type": model_type, **GENERATORS[model_type](Random(f"{model_type} {seed}"))}
