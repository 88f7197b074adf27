"""More wrappers: tensors of the text side, and the cache of a text alone, inside the whole model of transformers."""

from __future__ import annotations

import inspect
from random import Random

import pytest
from hybrid_configs import GENERATORS as HYBRIDS
from test_architecture_wrappers_oracle import TEXTS as EARLIER
from test_architecture_wrappers_oracle import VISION, text_name
from test_families_oracle import CACHE_NAMES, GENERATORS, held_bytes
from wrapped_texts import TEXTS as WRAPPED

from capienza.architecture.registry import describe
from capienza.predict.cache import TRANSFORMERS_RULE, cache_need

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")

pytestmark = pytest.mark.oracle

TEXTS = {**HYBRIDS, **EARLIER, **GENERATORS, **WRAPPED}
WRAPPERS = [
    ("apertus1p5", "apertus1p5_text"),
    ("aria", "aria_text"),
    ("aya_vision", "cohere2"),
    ("cohere2_vision", "cohere2"),
    ("cohere_compass", "cohere_compass_text"),
    ("cosmos3_edge", "cosmos3_edge_text"),
    ("cosmos3_omni", "qwen3_vl_text"),
    ("deepseek_ocr2", "deepseek_ocr2_text"),
    ("deepseek_vl", "llama"),
    ("deepseek_vl_hybrid", "llama"),
    ("ernie4_5_vl_moe", "ernie4_5_vl_moe_text"),
    ("exaone4_5", "exaone4"),
    ("fast_vlm", "qwen2"),
    ("glm46v", "glm4v_text"),
    ("glm46v", "glm4v_moe_text"),
    ("glm4v", "glm4v_text"),
    ("glm4v_moe", "glm4v_moe_text"),
    ("glm5_next", "glm5_next_text"),
    ("glm_ocr", "glm_ocr_text"),
    ("glmga", "glm4v_text"),
    ("granite4_vision", "granite4_vision_text"),
    ("granite_docling", "granite_docling_text"),
    ("hunyuan_vl", "hunyuan_vl_text"),
    ("hy_v4_vl", "hy_v4_vl_text"),
    ("hyperclovax_vision_v2", "hyperclovax"),
    ("idefics2", "mistral"),
    ("janus", "llama"),
    ("kimi_k25", "deepseek_v3"),
    ("lfm2_vl", "lfm2"),
    ("lfm3_vl", "lfm3"),
    ("lighton_ocr", "qwen3"),
    ("llava_next_video", "llama"),
    ("llava_next_video", "mistral"),
    ("minicpm_ocr", "qwen3_5_text"),
    ("minicpmv4_6", "qwen3_5_text"),
    ("minicpmv4_7", "qwen3_5_text"),
    ("mistral3", "mistral4"),
    ("mistral_large4", "mistral_large4_text"),
    ("molmo2", "molmo2_text"),
    ("muse_glimmer", "muse_glimmer_text"),
    ("muse_spark", "muse_spark_text"),
    ("ovis2", "qwen2"),
    ("ovis2", "gemma2"),
    ("paddleocr_vl", "paddleocr_vl_text"),
    ("perception_lm", "llama"),
    ("qianfan_ocr", "qwen3"),
    ("qwen2_5_omni_thinker", "qwen2_5_omni_text"),
    ("qwen3_omni_moe_thinker", "qwen3_omni_moe_text"),
    ("shieldgemma2", "gemma3_text"),
    ("unlimited_ocr", "unlimited_ocr_text"),
    ("video_llama_3", "qwen2"),
    ("video_llava", "llama"),
    ("vipllava", "llama"),
]
CLIP = {**VISION, "model_type": "clip_vision_model"}
TOKENS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
LENGTH = 12


def sides(wrapper: str, hidden: int, vocab: int) -> dict:
    """What else a class needs of the parts that are not described; some must fit the text part."""
    return {
        "apertus1p5": {
            "image_token_offset": 8,
            "audio_token_offset": 12,
            "vision_config": {"codebook_size": 4, "embed_dim": 4, "z_channels": 4, "base_channels": 32},
            "audio_config": {"model_type": "wavtokenizer_encoder", "codebook_size": 4},
        },
        "ernie4_5_vl_moe": {"vision_config": {**VISION, "hidden_size": 16}},
        "fast_vlm": {"vision_config": CLIP},
        "granite4_vision": {
            "deepstack_layer_map": [[0, 0]],
            "downsample_rate": "1/1",
            "vision_config": {**VISION, "hidden_size": 64},
        },
        "granite_docling": {"vision_config": {**VISION, "out_hidden_size": hidden}},
        "molmo2": {
            "vision_config": {**VISION, "image_size": [16, 16]},
            "adapter_config": {"vision_feature_layer": [0], "intermediate_size": 8, "text_hidden_size": hidden},
        },
        "muse_spark": {
            "audio_config": {"hidden_sizes": [4] * 4, "depths": [1] * 4, "out_hidden_size": hidden},
        },
        "ovis2": {"hidden_size": hidden, "vocab_size": vocab + 3},
        "perception_lm": {"vision_config": {**CLIP, "model_args": {"embed_dim": 8}}},
    }.get(wrapper, {})


def wrapped(wrapper: str, text_type: str, seed: int) -> dict:
    random = Random(f"{wrapper} {text_type} {seed}")
    text = {"model_type": text_type, **TEXTS[text_type](random)}
    if text_type == "deepseek_v3":
        text["num_key_value_heads"] = text["num_attention_heads"]  # transformers runs no other
    config = {"model_type": wrapper, "text_config": text, "vision_config": dict(VISION)}
    config["tie_word_embeddings"] = random.random() < 0.5
    return config | sides(wrapper, text["hidden_size"], text["vocab_size"])


def configure(config):
    values = {**config, "text_config": config["text_config"] | TOKENS}
    return transformers.AutoConfig.for_model(**values)


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("wrapper, text_type", WRAPPERS)
def test_text_side_equals_that_of_transformers(wrapper, text_type, seed):
    config = wrapped(wrapper, text_type, seed)
    with torch.device("meta"):
        model = transformers.AutoModelForImageTextToText.from_config(configure(config))
    parameters = {
        alone: tuple(parameter.shape)
        for name, parameter in model.named_parameters()
        if (alone := text_name(name)) is not None
    }
    architecture = describe(config)
    assert {parameter.name: parameter.shape for parameter in architecture.parameters} == parameters
    every = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    stored = {
        alone: tuple(tensor.shape)
        for name, tensor in model.state_dict().items()
        if name not in every and (alone := text_name(name)) is not None
    }
    assert {buffer.name: buffer.shape for buffer in architecture.buffers} == stored
    assert architecture.notes[0].code == "architecture.text-side-only"


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("wrapper, text_type", WRAPPERS)
def test_a_text_alone_fills_the_cache_that_is_described(wrapper, text_type, seed):
    """Only the text model is built with memory: it is the part of the whole model that fills the cache."""
    config = wrapped(wrapper, text_type, seed)
    with torch.device("meta"):
        decoder = transformers.AutoModelForImageTextToText.from_config(configure(config)).get_decoder()
    decoder.config._experts_implementation = "eager"
    torch.manual_seed(0)
    model = type(decoder)._from_config(decoder.config, dtype=torch.bfloat16).eval()
    tokens = torch.arange(LENGTH)[None] % 40
    with torch.no_grad():
        cache = transformers.DynamicCache(config=decoder.config)
        name = next(name for name in CACHE_NAMES if name in inspect.signature(model.forward).parameters)
        for step in (tokens[:, :-1], tokens[:, -1:]):
            model(input_ids=step, **{name: cache}, use_cache=True)
    need = cache_need(describe(config), LENGTH, "bf16", "bf16", TRANSFORMERS_RULE)
    assert need.windowed_bytes + need.state_bytes == held_bytes(cache)
