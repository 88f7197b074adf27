"""Small random configs of decoders with an image side that is described whole, or whose text side is built alone."""

from __future__ import annotations

from random import Random
from typing import Any

Config = dict[str, Any]
TOKENS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}


def _flag(random: Random) -> bool:
    return random.random() < 0.5


def _text(random: Random, *, head_size: int = 8) -> Config:
    heads = random.choice([1, 2, 4])
    return {
        "hidden_size": heads * head_size,
        "num_hidden_layers": random.randint(1, 4),
        "num_attention_heads": heads,
        "intermediate_size": random.randint(1, 40),
        "vocab_size": random.randint(40, 90),
        "max_position_embeddings": 64,
    }


def _say_tied(random: Random, *parts: Config) -> None:
    for part in parts:
        if _flag(random):
            part["tie_word_embeddings"] = _flag(random)


def fuyu(random: Random) -> Config:
    text = _text(random) | {"qk_layernorm": _flag(random)}
    config: Config = dict(text) if _flag(random) else {"text_config": {"model_type": "persimmon", **text, **TOKENS}}
    _say_tied(random, config, config.get("text_config", {}))
    return config | {"patch_size": random.choice([2, 4]), "num_channels": random.choice([1, 3])}


def got_ocr2(random: Random) -> Config:
    text = _text(random) | TOKENS
    text["num_key_value_heads"] = random.choice([1, text["num_attention_heads"]])
    layers = random.randint(1, 4)
    vision = {
        "hidden_size": 8,
        "num_attention_heads": random.choice([1, 2]),
        "num_hidden_layers": layers,
        "output_channels": random.randint(1, 6),
        "image_size": random.choice([16, 20]),
        "patch_size": 4,
        "mlp_dim": random.randint(1, 20),
        "num_channels": random.choice([1, 3]),
        "window_size": random.choice([0, 2, 3]),
        "global_attn_indexes": [index for index in range(layers) if _flag(random)],
        "qkv_bias": _flag(random),
        "use_abs_pos": _flag(random),
        "use_rel_pos": _flag(random),
    }
    config: Config = {"text_config": text, "vision_config": vision, "image_token_index": 3}
    _say_tied(random, config, text)
    return config


def emu3(random: Random) -> Config:
    text = _text(random) | TOKENS
    heads = text["num_attention_heads"]
    text["num_key_value_heads"] = random.choice([number for number in (1, 2, 4) if heads % number == 0])
    for key in ("attention_bias", "mlp_bias"):
        if _flag(random):
            text[key] = _flag(random)
    if _flag(random):
        text["head_dim"] = random.choice([4, 6])
    config: Config = {"text_config": text}
    _say_tied(random, config, text)
    return config


def git(random: Random) -> Config:
    config = _text(random, head_size=4)
    config["num_image_with_embedding"] = random.choice([None, 3])
    config["vision_config"] = {
        "hidden_size": 8,
        "intermediate_size": random.randint(1, 20),
        "num_hidden_layers": random.randint(1, 3),
        "num_attention_heads": 2,
        "image_size": random.choice([8, 12, 14]),
        "patch_size": 4,
        "num_channels": random.choice([1, 3]),
    }
    _say_tied(random, config)
    return config


GENERATORS = {"emu3": emu3, "fuyu": fuyu, "git": git, "got_ocr2": got_ocr2}
