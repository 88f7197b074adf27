"""Small random configs of BERT and its relatives, as a config.json states them."""

from __future__ import annotations

from random import Random
from typing import Any

Config = dict[str, Any]


def bert(random: Random) -> Config:
    heads = random.choice([1, 2, 4])
    config: Config = {
        "hidden_size": heads * random.choice([4, 8]),
        "num_hidden_layers": random.randint(1, 4),
        "num_attention_heads": heads,
        "intermediate_size": random.randint(1, 40),
        "vocab_size": random.randint(40, 90),
        "max_position_embeddings": random.choice([32, 64]),
        "type_vocab_size": random.randint(1, 3),
        "is_decoder": random.random() < 0.7,
        "tie_word_embeddings": random.random() < 0.5,
    }
    if config["is_decoder"] and random.random() < 0.5:
        config["add_cross_attention"] = True
    for key in ("is_decoder", "tie_word_embeddings"):
        if not config[key] and random.random() < 0.5:
            del config[key]
    return config


def big_bird(random: Random) -> Config:
    return bert(random) | {
        "use_bias": random.random() < 0.5,
        "attention_type": random.choice(["block_sparse", "original_full"]),
    }


def electra(random: Random) -> Config:
    config = bert(random)
    return config | {"embedding_size": random.choice([4, 12, config["hidden_size"]])}


def roformer(random: Random) -> Config:
    config = bert(random)
    return config | {
        "embedding_size": random.choice([None, 12, config["hidden_size"]]),
        "rotary_value": random.random() < 0.5,
    }


def rembert(random: Random) -> Config:
    return bert(random) | {
        "input_embedding_size": random.choice([8, 12]),
        "output_embedding_size": random.choice([8, 20]),
    }


def ernie(random: Random) -> Config:
    return bert(random) | {"use_task_id": random.random() < 0.5, "task_type_vocab_size": random.randint(1, 4)}


def roc_bert(random: Random) -> Config:
    return bert(random) | {
        "enable_pronunciation": random.random() < 0.5,
        "enable_shape": random.random() < 0.5,
        "concat_input": True,
        "pronunciation_embed_dim": 6,
        "pronunciation_vocab_size": 70,
        "shape_embed_dim": random.randint(2, 9),
        "shape_vocab_size": 80,
    }


def xmod(random: Random) -> Config:
    languages = random.sample(["en_XX", "it_IT", "fr_XX"], random.randint(1, 3))
    return bert(random) | {
        "languages": languages,
        "default_language": languages[0],
        "pre_norm": random.random() < 0.5,
        "adapter_reduction_factor": random.choice([1, 2, 3]),
        "adapter_layer_norm": random.random() < 0.5,
        "adapter_reuse_layer_norm": random.random() < 0.5,
        "ln_before_adapter": random.random() < 0.5,
    }


GENERATORS = {
    "bert": bert,
    "bert-generation": bert,
    "big_bird": big_bird,
    "camembert": bert,
    "data2vec-text": bert,
    "electra": electra,
    "ernie": ernie,
    "megatron-bert": bert,
    "rembert": rembert,
    "roberta": bert,
    "roberta-prelayernorm": bert,
    "roc_bert": roc_bert,
    "roformer": roformer,
    "xlm-roberta": bert,
    "xlm-roberta-xl": bert,
    "xmod": xmod,
}
