"""Small random configs of models with a state of constant size, as their config.json is written."""

from __future__ import annotations

from random import Random
from typing import Any

from drawn_parts import flag, maybe

Config = dict[str, Any]


def falcon_mamba(random: Random) -> Config:
    config: Config = {
        "hidden_size": random.choice([8, 24, 40]),
        "num_hidden_layers": random.randint(1, 4),
        "vocab_size": random.randint(40, 90),
    }
    maybe(
        random,
        config,
        state_size=random.randint(1, 9),
        expand=random.choice([1, 2, 3]),
        intermediate_size=random.choice([12, 20]),
        conv_kernel=random.choice([2, 3, 4]),
        time_step_rank=random.choice(["auto", 5]),
        use_bias=flag(random),
        use_conv_bias=flag(random),
        tie_word_embeddings=flag(random),
    )
    return config


GENERATORS = {"falcon_mamba": falcon_mamba}
