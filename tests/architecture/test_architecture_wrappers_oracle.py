"""The text side of vision-language configs against the same tensors inside the whole model of transformers."""

from __future__ import annotations

from random import Random

import pytest
from random_configs import GENERATORS, qwen3_vl_moe_text, qwen3_vl_text, qwen_vl_text
from small_configs import gemma_layers

from capienza.architecture.registry import describe

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")

pytestmark = pytest.mark.oracle

TEXTS = {
    **GENERATORS,
    **gemma_layers.GENERATORS,
    "qwen2_vl_text": qwen_vl_text,
    "qwen2_5_vl_text": qwen_vl_text,
    "qwen3_vl_text": qwen3_vl_text,
    "qwen3_vl_moe_text": qwen3_vl_moe_text,
}
WRAPPERS = [
    ("gemma3", "gemma3_text"),
    ("gemma4", "gemma4_text"),
    ("gemma4_unified", "gemma4_unified_text"),
    ("idefics3", "llama"),
    ("internvl", "qwen2"),
    ("llama4", "llama4_text"),
    ("llava", "llama"),
    ("llava", "mistral"),
    ("llava_next", "mistral"),
    ("llava_onevision", "qwen2"),
    ("mistral3", "ministral3"),
    ("mistral3", "mistral"),
    ("paligemma", "gemma"),
    ("paligemma", "gemma2"),
    ("qwen2_5_vl", "qwen2_5_vl_text"),
    ("qwen2_vl", "qwen2_vl_text"),
    ("qwen3_vl", "qwen3_vl_text"),
    ("qwen3_vl_moe", "qwen3_vl_moe_text"),
    ("smolvlm", "llama"),
]
# One tiny vision side whose keys suit every wrapper; a class takes those it knows.
VISION = {
    "depth": 1,
    "embed_dim": 8,
    "head_dim": 4,
    "hidden_size": 8,
    "image_size": 16,
    "intermediate_size": 8,
    "num_attention_heads": 2,
    "num_heads": 2,
    "num_hidden_layers": 1,
    "num_position_embeddings": 4,
    "out_hidden_size": 8,
    "patch_size": 8,
    "projection_dim": 8,
    "projector_input_dim": 8,
    "projector_output_dim": 8,
    "vision_output_dim": 8,
    "deepstack_visual_indexes": [0],
    "fullatt_block_indexes": [0],
}


def text_name(name: str) -> str | None:
    """The name a tensor has in the text model alone; None outside the text side."""
    for inside, alone in (
        ("language_model.model.", "model."),
        ("language_model.lm_head.", "lm_head."),
        ("model.language_model.", "model."),
        ("model.text_model.", "model."),
        ("lm_head.", "lm_head."),
    ):
        if name.startswith(inside):
            return alone + name.removeprefix(inside)
    return None


def wrapped(wrapper: str, text_type: str, seed: int) -> dict:
    random = Random(f"{wrapper} {text_type} {seed}")
    text = {"model_type": text_type, **TEXTS[text_type](random)}
    config = {"model_type": wrapper, "text_config": text, "vision_config": dict(VISION)}
    config["tie_word_embeddings"] = random.random() < 0.5
    return config


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("wrapper, text_type", WRAPPERS)
def test_text_side_equals_that_of_transformers(wrapper, text_type, seed):
    config = wrapped(wrapper, text_type, seed)
    tokens = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    made = transformers.AutoConfig.for_model(**{**config, "text_config": config["text_config"] | tokens})
    with torch.device("meta"):
        model = transformers.AutoModelForImageTextToText.from_config(made)
    theirs = {
        alone: tuple(parameter.shape)
        for name, parameter in model.named_parameters()
        if (alone := text_name(name)) is not None
    }
    architecture = describe(config)
    assert {parameter.name: parameter.shape for parameter in architecture.parameters} == theirs
    assert architecture.notes[0].code == "architecture.text-side-only"


@pytest.mark.parametrize("wrapper", ["qwen2_vl", "qwen2_5_vl"])
def test_text_keys_at_the_top_are_read_like_those_of_a_text_part(wrapper):
    text = qwen_vl_text(Random(5))
    flat = describe({"model_type": wrapper, **text})
    nested = describe({"model_type": wrapper, "text_config": text, "tie_word_embeddings": text["tie_word_embeddings"]})
    assert flat.parameters == nested.parameters
    assert flat.layers == nested.layers
