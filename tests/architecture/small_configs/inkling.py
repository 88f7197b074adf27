"""Small random configs of the Inkling text models, as their config.json is written."""

from __future__ import annotations

from random import Random
from typing import Any

from drawn_parts import flag, frame, maybe, mlp_types, types

Config = dict[str, Any]
KINDS = ("hybrid", "hybrid_sliding")


def _common(random: Random, *, layers: int = 6) -> Config:
    config = frame(random, layers=layers)
    kv_heads = random.choice([1, 2])
    config |= {
        "head_dim": random.choice([4, 8]),
        "swa_num_attention_heads": kv_heads * random.choice([1, 2]),
        "swa_num_key_value_heads": kv_heads,
        "swa_head_dim": random.choice([4, 6]),
        "n_routed_experts": random.choice([3, 5]),
        "num_experts_per_tok": random.randint(1, 2),
        random.choice(["sliding_window_size", "sliding_window"]): random.choice([4, 7]),
    }
    maybe(random, config, d_rel=random.choice([2, 4]), rel_extent=8, log_scaling_n_floor=8)
    maybe(random, config, **{random.choice(["conv_kernel_size", "sconv_kernel_size"]): random.choice([2, 3])})
    maybe(random, config, layer_types=types(random, config, *KINDS))
    return config


def inkling_text(random: Random) -> Config:
    config = _common(random)
    layers = config["num_hidden_layers"]
    config |= {"n_shared_experts": random.randint(1, 2), "moe_intermediate_size": random.randint(1, 9)}
    maybe(
        random,
        config,
        dense_mlp_idx=random.randint(0, layers),
        local_layer_ids=[index for index in range(layers) if flag(random)],
        num_mtp_layers=1,
    )
    maybe(random, config, mlp_layer_types=mlp_types(random, config))
    if flag(random):
        config["dense_intermediate_size"] = random.randint(1, 9)
    return config


def inkling2_text(random: Random, *, layers: int = 6) -> Config:
    config = _common(random, layers=layers)
    config["moe_intermediate_size"] = config.pop("intermediate_size")
    config["unpadded_vocab_size"] = config["vocab_size"] - random.randint(0, 3)
    config["n_layers_per_attn_res_block"] = random.randint(1, 3)
    return config


def inkling2_loop_text(random: Random) -> Config:
    config = inkling2_text(random)
    block = config["n_layers_per_attn_res_block"]
    start = block * random.randint(1, 2)
    end = start + block * random.randint(1, 2)
    loop = {"core_start": start, "core_end": end, "num_passes": random.randint(1, 3), "gate_rank": 4}
    config["num_hidden_layers"] = end + random.randint(0, 2)
    config.pop("layer_types", None)
    maybe(random, config, layer_types=types(random, config, *KINDS))
    if flag(random):
        return config | {"loop_config": loop}
    return config | {
        "loop_layer_index_start": start,
        "loop_layer_index_end": end,
        "loop_num_passes": loop["num_passes"],
        "loop_gate_rank": 4,
    }


GENERATORS = {
    "inkling2_loop_text": inkling2_loop_text,
    "inkling2_text": inkling2_text,
    "inkling_text": inkling_text,
}
