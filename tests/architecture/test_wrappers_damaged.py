"""Wrappers with one key at a time damaged, in the file or in its text part: described or an `InputError`, quickly."""

from __future__ import annotations

from random import Random

import pytest
from hybrid_configs import GENERATORS as HYBRIDS
from random_configs import GENERATORS as PLAIN
from random_configs import qwen3_vl_text
from small_configs import seq2seq
from test_families_damaged import GENERATORS, damaged, outcome
from whole_texts import WHOLE
from wrapped_texts import TEXTS as WRAPPED

from capienza.architecture.registry import describe
from capienza.errors import InputError

TEXTS = {**HYBRIDS, **PLAIN, **GENERATORS, **WRAPPED, "qwen3_vl_text": qwen3_vl_text}
WRAPPERS = {
    "aya_vision": "cohere2",
    "blip": "blip_text_model",
    "cosmos3_edge": "cosmos3_edge_text",
    "cosmos3_omni": "qwen3_vl_text",
    "deepseek_ocr2": "deepseek_ocr2_text",
    "ernie4_5_vl_moe": "ernie4_5_vl_moe_text",
    "florence2": "bart",
    "glm4v": "glm4v_text",
    "glm4v_moe": "glm4v_moe_text",
    "glm5_next": "glm5_next_text",
    "glm_ocr": "glm_ocr_text",
    "granite_docling": "granite_docling_text",
    "hunyuan_vl": "hunyuan_vl_text",
    "hy_v4_vl": "hy_v4_vl_text",
    "kimi_k25": "deepseek_v3",
    "kosmos-2": "kosmos_2_text_model",
    "kosmos-2.5": "kosmos_2_5_text_model",
    "lfm2_vl": "lfm2",
    "mistral_large4": "mistral_large4_text",
    "molmo2": "molmo2_text",
    "muse_glimmer": "muse_glimmer_text",
    "muse_spark": "muse_spark_text",
    "ovis2": "qwen2",
    "paddleocr_vl": "paddleocr_vl_text",
    "qwen2_5_omni_thinker": "qwen2_5_omni_text",
    "qwen3_omni_moe_thinker": "qwen3_omni_moe_text",
    "step3p7": "step3p5",
    "unlimited_ocr": "unlimited_ocr_text",
}


def check(config: dict) -> int:
    """How many of the damaged files are refused."""
    assert describe(config).num_parameters > 0
    refused = 0
    for made in damaged(config):
        result = outcome(made)
        if isinstance(result, InputError):
            refused += 1
            assert result.place.key
            continue
        assert result.num_parameters > 0
        assert all(str(note) for note in result.notes)
        assert all(size >= 0 for parameter in result.parameters for size in parameter.shape)
    return refused


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_a_damaged_wrapper_ends_in_an_architecture_or_an_input_error(wrapper):
    random = Random(f"{wrapper} 1")
    text_type = WRAPPERS[wrapper]
    text = {"model_type": text_type, **{**seq2seq.GENERATORS, **TEXTS}[text_type](random)}
    config = {"model_type": wrapper, "text_config": text, "tie_word_embeddings": False}
    if wrapper == "ovis2":
        config |= {"hidden_size": text["hidden_size"], "vocab_size": 90}
    assert check(config | {"vision_config": {"hidden_size": 8}})


@pytest.mark.parametrize("model_type", WHOLE)
def test_a_damaged_file_with_text_keys_at_the_top_ends_so_too(model_type):
    assert check({"model_type": model_type, **WHOLE[model_type](Random(f"{model_type} 1"))})


@pytest.mark.parametrize("name", ["thinker_config", "decoder", "language_config"])
def test_damaged_parts_under_other_names_end_so_too(name):
    text = {"model_type": "qwen2_5_omni_text", **WRAPPED["qwen2_5_omni_text"](Random(4))}
    made = {
        "thinker_config": {"model_type": "qwen2_5_omni", name: {"text_config": text, "tie_word_embeddings": False}},
        "decoder": {"model_type": "vision-encoder-decoder", name: {"model_type": "bart", **seq2seq.bart(Random(4))}},
        "language_config": {
            "model_type": "unlimited_ocr",
            name: WRAPPED["unlimited_ocr_text"](Random(4)),
            "sliding_window": 8,
        },
    }
    assert check(made[name])
