"""Small random configs of models that see and keep the text's keys at the top of the file."""

from __future__ import annotations

from random import Random

from drawn_parts import Config, flag, frame, maybe
from small_configs.seeing_decoders import got_ocr2
from wrapped_texts import mistral4


def chameleon(random: Random) -> Config:
    config = frame(random)
    maybe(random, config, attention_bias=flag(random), mlp_bias=flag(random), swin_norm=flag(random))
    vq = {"embed_dim": 4, "num_embeddings": 8, "latent_channels": 4, "base_channels": 32, "num_res_blocks": 1}
    codes = {"<image>": 4} | {f"IMGIMG{letter}Z": place for place, letter in enumerate("ABCDEFGH", start=5)}
    return config | {"vq_config": vq, "vocabulary_map": codes}


def idefics(random: Random) -> Config:
    config = frame(random, grouped=False)
    maybe(random, config, additional_vocab_size=random.choice([0, 5]), cross_layer_interval=random.randint(1, 3))
    config["num_hidden_layers"] *= config.get("cross_layer_interval", 1)
    maybe(random, config, qk_layer_norms=flag(random), alpha_type=random.choice(["float", "vector"]))
    vision = {"embed_dim": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    return config | {"vision_config": vision | {"image_size": 16, "patch_size": 8}}


def evolla(random: Random) -> Config:
    config = frame(random)
    maybe(random, config, attention_bias=flag(random), mlp_bias=flag(random), head_dim=random.choice([4, 6]))
    maybe(random, config, aligner_enable_bias=flag(random), aligner_num_add_layers=random.randint(1, 9))
    maybe(random, config, aligner_ffn_mult=random.randint(1, 3))
    protein = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    return config | {"protein_encoder_config": protein, "resampler_depth": 1}


WHOLE = {
    "chameleon": chameleon,
    "evolla": evolla,
    "idefics": idefics,
    "mistral4": mistral4,
    "pp_chart2table": got_ocr2,
}
