"""Small random configs of models that read bytes, as their config.json is written."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from small_configs.dense_blocks import Config, flag, maybe


def stack(random: Random) -> Config:
    heads = random.choice([1, 2, 4])
    config: Config = {
        "hidden_size": heads * random.choice([4, 8]),
        "num_hidden_layers": random.randint(1, 3),
        "num_attention_heads": heads,
        "intermediate_size": random.randint(1, 20),
    }
    maybe(random, config, num_key_value_heads=random.choice([1, heads]))
    return config


def blt(random: Random) -> Config:
    encoder, decoder, patches = stack(random), stack(random), stack(random)
    decoder["hidden_size"] = encoder["hidden_size"]  # what the encoder makes of each byte goes on into the decoder
    decoder["num_attention_heads"] = encoder["num_attention_heads"]
    decoder["num_key_value_heads"] = encoder["num_attention_heads"]
    across = random.randint(1, 3)
    decoder["hidden_size_global"] = patches["hidden_size"]
    maybe(random, encoder, cross_attn_all_layers=flag(random), intermediate_size=None)
    maybe(random, decoder, cross_attn_all_layers=flag(random))
    config = {
        "encoder_config": encoder | {"cross_attn_k": across},
        "decoder_config": decoder | {"cross_attn_k": across},
        "global_config": patches,
        "patcher_config": stack(random),
        "cross_attn_k": across,
        "vocab_size": 260,
        "encoder_hash_byte_group_vocab": 11,
    }
    maybe(
        random,
        config,
        tie_word_embeddings=flag(random),
        patch_in_forward=flag(random),
        encoder_hash_byte_group_size=[3, 4],
        encoder_hash_byte_group_nb_functions=random.randint(1, 2),
        max_position_embeddings=64,
    )
    return config


GENERATORS: dict[str, Callable[[Random], Config]] = {"blt": blt}
