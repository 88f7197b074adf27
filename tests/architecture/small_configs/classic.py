"""Small random configs of early decoders, as their config.json is written."""

from __future__ import annotations

from random import Random
from typing import Any

Config = dict[str, Any]


def gptj(random: Random) -> Config:
    heads = random.choice([1, 2, 4])
    return {
        "n_embd": 8 * heads,
        "n_head": heads,
        "n_layer": random.randint(1, 4),
        "n_inner": random.choice([None, 11]),
        "rotary_dim": 4,
        "vocab_size": random.randint(40, 90),
        "n_positions": 64,
        "tie_word_embeddings": random.random() < 0.5,
    }


GENERATORS = {"gptj": gptj}
