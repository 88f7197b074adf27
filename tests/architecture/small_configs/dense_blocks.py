"""Small random configs of dense decoders built like Llama, as their config.json is written."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

Config = dict[str, Any]


def flag(random: Random) -> bool:
    return random.random() < 0.5


def maybe(random: Random, config: Config, **values: Any) -> None:
    """Write each key in half of the configs."""
    config.update({key: value for key, value in values.items() if flag(random)})


def common(random: Random, *, head_dim: bool = True, even: bool = False) -> Config:
    """Keys most families share. Heads of 4 elements or more, since rotary positions need pairs."""
    kv_heads = random.choice([2, 4] if even else [1, 2, 3])
    heads = kv_heads * random.choice([1, 2, 4])
    config: Config = {
        "hidden_size": heads * random.choice([4, 8]),
        "num_hidden_layers": random.randint(1, 7),
        "num_attention_heads": heads,
        "num_key_value_heads": random.choice([kv_heads, heads]),
        "intermediate_size": random.randint(1, 40),
        "vocab_size": random.randint(40, 90),
    }
    maybe(random, config, tie_word_embeddings=flag(random), max_position_embeddings=64)
    if head_dim:
        maybe(random, config, head_dim=random.choice([4, 6, 16]))
    return config


def types(random: Random, config: Config) -> list[str]:
    return [random.choice(["sliding_attention", "full_attention"]) for _ in range(config["num_hidden_layers"])]


def stated_head(config: Config) -> Config:
    """The class has a head size of its own, which does not suit these widths."""
    return {"head_dim": config["hidden_size"] // config["num_attention_heads"], **config}


def llama_like(random: Random) -> Config:
    config = common(random)
    maybe(random, config, attention_bias=flag(random), mlp_bias=flag(random))
    if flag(random):
        del config["num_key_value_heads"]
    return config


def apertus(random: Random) -> Config:
    config = common(random)
    maybe(random, config, attention_bias=flag(random), hidden_act=random.choice(["xielu", "silu"]))
    return config


def apertus1p5_text(random: Random) -> Config:
    config = apertus(random)
    if not config.get("tie_word_embeddings"):
        maybe(random, config, output_vocab_size=random.choice([None, config["vocab_size"], 40]))
    return config


def bitnet(random: Random) -> Config:
    config = common(random, head_dim=False)
    maybe(random, config, attention_bias=flag(random))
    return config


def cohere(random: Random) -> Config:
    config = common(random)
    maybe(random, config, attention_bias=flag(random), use_qk_norm=flag(random))
    return config


def cohere_compass_text(random: Random) -> Config:
    config = common(random, head_dim=False)
    maybe(random, config, attention_bias=flag(random), sliding_window=5, layer_types=types(random, config))
    pairs = config["hidden_size"] // config["num_attention_heads"] // 2
    rope = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, pairs - 2]}
    return config | {"rope_parameters": {"full_attention": rope, "sliding_attention": dict(rope)}}


def cwm(random: Random) -> Config:
    config = stated_head(common(random))
    config["sliding_window"] = random.choice([4, 9])
    maybe(random, config, layer_types=types(random, config), mlp_bias=flag(random))
    return config


def diffllama(random: Random) -> Config:
    config = common(random, even=True)
    maybe(random, config, attention_bias=flag(random))
    return config


def ernie4_5(random: Random) -> Config:
    config = stated_head(common(random))
    maybe(random, config, use_bias=flag(random))
    return config


def exaone(random: Random) -> Config:
    config = llama_like(random)
    if flag(random):
        config["num_layers"] = config.pop("num_hidden_layers")
    return {"num_key_value_heads": config["num_attention_heads"], **config}


def exaone4(random: Random) -> Config:
    config = common(random)
    kinds = types(random, config)
    if flag(random):
        return config | {"sliding_window": None, "layer_types": ["full_attention"] * len(kinds)}
    config["sliding_window"] = random.choice([4, 9])
    if flag(random):
        return config | {"sliding_window_pattern": "LLLG", "layer_types": kinds}
    maybe(random, config, sliding_window_pattern=random.randint(1, 4))
    return config


def glm(random: Random) -> Config:
    config = stated_head(common(random))
    maybe(random, config, attention_bias=flag(random))
    return config


def granite_swa(random: Random) -> Config:
    config = common(random)
    maybe(random, config, attention_bias=flag(random), mlp_bias=flag(random), layer_types=types(random, config))
    return config | {"sliding_window": random.choice([4, 9])}


def helium(random: Random) -> Config:
    config = stated_head(common(random, head_dim=False))
    maybe(random, config, attention_bias=flag(random), mlp_bias=flag(random))
    return config


def hunyuan_v1_dense(random: Random) -> Config:
    config = stated_head(common(random))
    maybe(random, config, attention_bias=flag(random))
    return config


def hyperclovax(random: Random) -> Config:
    config = llama_like(random)
    maybe(random, config, use_post_norm=flag(random))
    return config


def internlm3(random: Random) -> Config:
    config = stated_head(common(random))
    bias = flag(random)
    return config | {random.choice(["qkv_bias", "attention_bias"]): bias, random.choice(["bias", "mlp_bias"]): bias}


def iquestcoder(random: Random) -> Config:
    config = stated_head(common(random))
    maybe(random, config, attention_bias=flag(random), mlp_bias=flag(random), use_sliding_window=False)
    return config


GENERATORS: dict[str, Callable[[Random], Config]] = {
    "apertus": apertus,
    "apertus1p5_text": apertus1p5_text,
    "arcee": llama_like,
    "bitnet": bitnet,
    "cohere": cohere,
    "cohere_compass_text": cohere_compass_text,
    "cwm": cwm,
    "diffllama": diffllama,
    "ernie4_5": ernie4_5,
    "exaone": exaone,
    "exaone4": exaone4,
    "glm": glm,
    "granite_swa": granite_swa,
    "helium": helium,
    "hunyuan_v1_dense": hunyuan_v1_dense,
    "hyperclovax": hyperclovax,
    "internlm3": internlm3,
    "iquestcoder": iquestcoder,
    "jais2": llama_like,
}
