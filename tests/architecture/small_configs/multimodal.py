"""Small random configs of models with an image or speech side that AutoModelForCausalLM builds, as they are written."""

from __future__ import annotations

from random import Random
from typing import Any

from drawn_parts import flag, frame, maybe

Config = dict[str, Any]


def mllama(random: Random) -> Config:
    text = frame(random)
    layers = text["num_hidden_layers"] = random.randint(2, 6)
    cross = [index for index in range(1, layers) if flag(random)]
    maybe(random, text, cross_attention_layers=cross)
    return {"text_config": text | {"pad_token_id": 0}}


def moss_transcribe_diarize(random: Random) -> Config:
    text = frame(random) | {"model_type": random.choice(["qwen3", "qwen2"]), "pad_token_id": 0}
    heads = random.choice([1, 2])
    audio: Config = {
        random.choice(["hidden_size", "d_model"]): 4 * heads,
        random.choice(["num_attention_heads", "encoder_attention_heads"]): heads,
        random.choice(["num_hidden_layers", "encoder_layers"]): random.randint(1, 2),
        random.choice(["intermediate_size", "encoder_ffn_dim"]): random.randint(1, 9),
        "num_mel_bins": 5,
        "max_source_positions": 12,
    }
    config: Config = {"text_config": text, "audio_config": audio}
    maybe(random, config, tie_word_embeddings=flag(random), projector_bias=flag(random), audio_merge_size=2)
    return config


def phi4_multimodal(random: Random) -> Config:
    config = frame(random)
    heads = random.choice([1, 2])
    config["vision_config"] = {
        "hidden_size": 4 * heads,
        "num_attention_heads": heads,
        "num_hidden_layers": random.randint(1, 2),
        "intermediate_size": random.randint(1, 9),
        "patch_size": 4,
        "image_size": random.choice([8, 12]),
        "crop_size": 8,
    }
    config["audio_config"] = {
        "hidden_size": 4 * heads,
        "num_attention_heads": heads,
        "num_blocks": random.randint(1, 2),
        "intermediate_size": random.randint(1, 9),
        "input_size": random.choice([7, 8]),
        "time_reduction": random.choice([2, 4, 8]),
        "nemo_conv_channels": 3,
        "ext_pw_out_channel": 4 * heads,
        "depthwise_separable_out_channel": 4 * heads,
        "bias_max_distance": 6,
    }
    maybe(random, config["audio_config"], bias_symmetric=flag(random), depthwise_multiplier=2, kernel_size=2)
    maybe(random, config, sliding_window=random.choice([None, 5]))
    return config


GENERATORS = {
    "mllama": mllama,
    "moss_transcribe_diarize": moss_transcribe_diarize,
    "phi4_multimodal": phi4_multimodal,
}
