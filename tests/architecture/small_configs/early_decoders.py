"""Small random configs of decoders from before 2023 and of those built unlike them, as a config.json states them."""

from __future__ import annotations

from random import Random
from typing import Any

Config = dict[str, Any]


def _flag(random: Random) -> bool:
    return random.random() < 0.5


def _gpt(random: Random, **more: Any) -> Config:
    """The names of GPT-2's keys."""
    heads = random.choice([4, 8])
    return {
        "n_embd": 4 * heads,
        "n_head": heads,
        "n_layer": random.randint(1, 4),
        "vocab_size": random.randint(40, 90),
        "n_positions": random.choice([32, 64]),
        "tie_word_embeddings": _flag(random),
        **more,
    }


def _common(random: Random, **more: Any) -> Config:
    heads = random.choice([1, 2, 4])
    return {
        "hidden_size": heads * random.choice([4, 8]),
        "num_hidden_layers": random.randint(1, 5),
        "num_attention_heads": heads,
        "intermediate_size": random.randint(1, 40),
        "vocab_size": random.randint(40, 90),
        "max_position_embeddings": random.choice([32, 64]),
        "tie_word_embeddings": _flag(random),
        **more,
    }


def codegen(random: Random) -> Config:
    return _gpt(random, n_inner=random.choice([None, 11]), rotary_dim=4)


def ctrl(random: Random) -> Config:
    return _gpt(random, dff=random.randint(1, 40))


def gpt_sw3(random: Random) -> Config:
    return _gpt(random, n_inner=random.choice([None, 11]))


def openai_gpt(random: Random) -> Config:
    return _gpt(random)


def xglm(random: Random) -> Config:
    heads = random.choice([1, 2, 4])
    return {
        "d_model": heads * random.choice([4, 8]),
        "num_layers": random.randint(1, 4),
        "attention_heads": heads,
        "ffn_dim": random.randint(1, 40),
        "vocab_size": random.randint(40, 90),
        "max_position_embeddings": 64,
        "tie_word_embeddings": _flag(random),
        "add_cross_attention": _flag(random),
    }


def prophetnet(random: Random) -> Config:
    heads = random.choice([1, 2, 4])
    layers = random.randint(1, 3)
    return {
        "hidden_size": heads * random.choice([4, 8]),
        "num_encoder_layers": layers + random.randint(0, 2),
        "num_encoder_attention_heads": 1,
        "encoder_ffn_dim": 9,
        "num_decoder_layers": layers,
        "num_decoder_attention_heads": heads,
        "decoder_ffn_dim": random.randint(1, 40),
        "vocab_size": random.randint(40, 90),
        "max_position_embeddings": 64,
        "ngram": random.randint(1, 3),
        "num_buckets": random.choice([16, 32]),
        "add_cross_attention": _flag(random),
        "tie_word_embeddings": _flag(random),
    }


def gpt_neo(random: Random) -> Config:
    heads = random.choice([1, 2, 4])
    groups = [
        [[random.choice(["global", "local"]) for _ in range(random.randint(1, 2))], random.randint(1, 2)]
        for _ in range(random.randint(1, 2))
    ]
    return {
        "hidden_size": 4 * heads,
        "num_layers": sum(len(kinds) * repeats for kinds, repeats in groups),
        "num_heads": heads,
        "attention_types": groups,
        "window_size": random.choice([4, 16]),
        "intermediate_size": random.choice([None, 11]),
        "vocab_size": random.randint(40, 90),
        "max_position_embeddings": 64,
        "tie_word_embeddings": _flag(random),
    }


def gpt_neox_japanese(random: Random) -> Config:
    config = _common(random, intermediate_multiple_size=random.randint(1, 4))
    del config["intermediate_size"]
    return config


def persimmon(random: Random) -> Config:
    config = _common(random, qk_layernorm=_flag(random))
    config["hidden_size"] = 8 * config["num_attention_heads"]
    return config


def modernbert_decoder(random: Random) -> Config:
    config = _common(random, local_attention=random.choice([8, 11, 64]))
    config["global_attn_every_n_layers"] = random.randint(1, 4)
    for key in ("norm_bias", "attention_bias", "mlp_bias", "decoder_bias", "classifier_bias"):
        if _flag(random):
            config[key] = _flag(random)
    if _flag(random):
        kinds = ["sliding_attention", "full_attention"]
        config["layer_types"] = [random.choice(kinds) for _ in range(config["num_hidden_layers"])]
    return config


def moshi(random: Random) -> Config:
    config = _common(random, ffn_dim=2 * random.randint(1, 20), sliding_window=random.choice([5, 8, 30]))
    del config["intermediate_size"]
    heads = config["num_attention_heads"]
    config["num_key_value_heads"] = random.choice([None, *(number for number in (1, 2, 4) if heads % number == 0)])
    config["head_dim"] = random.choice([None, 4, 6])
    config["num_codebooks"] = 2
    return config


def cpmant(random: Random) -> Config:
    config = _common(
        random,
        dim_head=random.choice([2, 6]),
        dim_ff=random.randint(1, 40),
        prompt_length=random.choice([3, 8]),
        prompt_types=random.randint(3, 5),
        segment_types=random.randint(3, 6),
        position_bias_num_buckets=random.choice([16, 32]),
    )
    del config["intermediate_size"], config["max_position_embeddings"]
    return config


def rwkv(random: Random) -> Config:
    return {
        "hidden_size": random.choice([8, 24]),
        "num_hidden_layers": random.randint(2, 4),  # transformers cannot initialise a single layer
        "intermediate_size": random.choice([None, 11]),
        "vocab_size": random.randint(40, 90),
        "context_length": 64,
        "tie_word_embeddings": _flag(random),
    }


def xlm(random: Random) -> Config:
    heads = random.choice([1, 2, 4])
    return {
        "emb_dim": heads * random.choice([4, 8]),
        "n_layers": random.randint(1, 4),
        "n_heads": heads,
        random.choice(["vocab_size", "n_words"]): random.randint(40, 90),
        "max_position_embeddings": 64,
        "n_langs": random.choice([1, 3]),
        "use_lang_emb": _flag(random),
        "sinusoidal_embeddings": _flag(random),
        "causal": _flag(random),
        "tie_word_embeddings": _flag(random),
    }


def xlnet(random: Random) -> Config:
    heads = random.choice([1, 2, 4])
    return {
        "d_model": heads * random.choice([4, 8]),
        "n_layer": random.randint(1, 4),
        "n_head": heads,
        "d_inner": random.randint(1, 40),
        "vocab_size": random.randint(40, 90),
        "mem_len": random.choice([None, 0, 5, 64]),
        "use_mems_eval": random.random() < 0.8,
        "attn_type": random.choice(["uni", "bi"]),
        "tie_word_embeddings": _flag(random),
    }


def reformer(random: Random) -> Config:
    widths = [random.choice([4, 6]), random.choice([4, 10])]
    return {
        "hidden_size": sum(widths),
        "num_attention_heads": random.choice([1, 2]),
        "attention_head_size": random.choice([4, 6]),
        "feed_forward_size": random.randint(1, 40),
        "attn_layers": [random.choice(["local", "lsh"]) for _ in range(random.randint(1, 4))],
        "axial_pos_embds": _flag(random),
        "axial_pos_shape": [4, 16],
        "axial_pos_embds_dim": widths,
        "max_position_embeddings": 64,
        "local_attn_chunk_length": 4,
        "lsh_attn_chunk_length": 4,
        "num_buckets": 2,
        "is_decoder": True,
        "vocab_size": random.randint(40, 90),
    }


GENERATORS = {
    "biogpt": _common,
    "codegen": codegen,
    "cpmant": cpmant,
    "ctrl": ctrl,
    "gpt-sw3": gpt_sw3,
    "gpt_neo": gpt_neo,
    "gpt_neox_japanese": gpt_neox_japanese,
    "modernbert-decoder": modernbert_decoder,
    "moshi": moshi,
    "openai-gpt": openai_gpt,
    "persimmon": persimmon,
    "prophetnet": prophetnet,
    "reformer": reformer,
    "rwkv": rwkv,
    "xglm": xglm,
    "xlm": xlm,
    "xlnet": xlnet,
}
