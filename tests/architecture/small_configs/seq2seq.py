"""Small random configs of encoder-decoder models whose decoder is built alone, as a config.json states them."""

from __future__ import annotations

from random import Random
from typing import Any

Config = dict[str, Any]


def bart(random: Random) -> Config:
    heads = random.choice([1, 2, 4])
    layers = random.randint(1, 4)
    config: Config = {
        "d_model": 4 * heads * random.choice([1, 2]),
        "encoder_layers": layers + random.randint(0, 2),  # transformers makes that many layers of a decoder's cache
        "encoder_attention_heads": 1,
        "encoder_ffn_dim": 9,
        "decoder_layers": layers,
        "decoder_attention_heads": heads,
        "decoder_ffn_dim": random.randint(1, 40),
        "vocab_size": random.randint(40, 90),
        "max_position_embeddings": random.choice([32, 64]),
        "tie_word_embeddings": random.random() < 0.5,
    }
    if config["tie_word_embeddings"] and random.random() < 0.5:
        del config["tie_word_embeddings"]
    return config


def marian(random: Random) -> Config:
    return bart(random) | {
        "decoder_vocab_size": random.choice([None, 45]),
        "share_encoder_decoder_embeddings": random.random() < 0.5,
    }


def bigbird_pegasus(random: Random) -> Config:
    return bart(random) | {"use_bias": random.random() < 0.5}


def mvp(random: Random) -> Config:
    return bart(random) | {"use_prompt": random.random() < 0.5, "prompt_length": 5, "prompt_mid_dim": 6}


def whisper(random: Random) -> Config:
    config = bart(random)
    del config["max_position_embeddings"]
    return config | {"max_target_positions": random.choice([32, 64]), "max_source_positions": 16}


def trocr(random: Random) -> Config:
    config = {key: value for key, value in bart(random).items() if not key.startswith("encoder_")}
    config["use_learned_position_embeddings"] = random.random() < 0.5
    config["layernorm_embedding"] = random.random() < 0.5
    if random.random() < 0.5:
        config["cross_attention_hidden_size"] = random.choice([None, 6])
    return config


GENERATORS = {
    "bart": bart,
    "bigbird_pegasus": bigbird_pegasus,
    "blenderbot": bart,
    "blenderbot-small": bart,
    "marian": marian,
    "mbart": bart,
    "mvp": mvp,
    "pegasus": bart,
    "plbart": bart,
    "trocr": trocr,
    "whisper": whisper,
}
