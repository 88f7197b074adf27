"""The text side of wrappers whose text types stand in `small_configs/`, inside the whole model of transformers."""

from __future__ import annotations

from random import Random

import pytest
from test_architecture_wrappers_oracle import VISION, text_name
from test_families_oracle import GENERATORS

from capienza.architecture.registry import describe

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")

pytestmark = pytest.mark.oracle

PATCHES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "patch_size")
WRAPPERS = {
    "inkling2": ("inkling2_text", PATCHES),
    "inkling2_loop": ("inkling2_loop_text", PATCHES),
    "inkling_mm_model": ("inkling_text", ()),
    "minimax_m3_vl": ("minimax_m3_vl_text", (*PATCHES, "image_size", "intermediate_size")),
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_text_side_equals_that_of_transformers(wrapper, seed):
    text_type, keys = WRAPPERS[wrapper]
    random = Random(f"{wrapper} {seed}")
    text = {"model_type": text_type, **GENERATORS[text_type](random)}
    vision = {key: VISION[key] for key in keys}
    if text_type.startswith("inkling2"):
        vision["text_hidden_size"] = text["hidden_size"]
    config = {"model_type": wrapper, "text_config": text, "vision_config": vision}
    config["tie_word_embeddings"] = random.random() < 0.5
    tokens = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    made = transformers.AutoConfig.for_model(**{**config, "text_config": text | tokens})
    with torch.device("meta"):
        model = transformers.AutoModelForImageTextToText.from_config(made)
    named = {text_name(name): tuple(parameter.shape) for name, parameter in model.named_parameters()}
    theirs = {name: shape for name, shape in named.items() if name is not None}
    assert {parameter.name: parameter.shape for parameter in describe(config).parameters} == theirs
