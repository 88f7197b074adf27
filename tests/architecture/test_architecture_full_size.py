"""The example configs: published totals, cache widths worked by hand, and the same from transformers itself."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from capienza.architecture.registry import describe

EXAMPLES = Path(__file__).parents[2] / "examples" / "configs"

# Elements in the headers of the published bf16 files; for the wrappers the text side alone.
TOTALS = {
    "Qwen--Qwen2.5-0.5B": 494_032_768,
    "Qwen--Qwen2.5-7B": 7_615_616_512,
    "Qwen--Qwen3-30B-A3B": 30_532_122_624,
    "Qwen--Qwen3-8B": 8_190_735_360,
    "deepseek-ai--DeepSeek-V3": 671_026_419_200,
    "google--gemma-2-9b": 9_241_705_984,
    "google--gemma-3-27b-it": 27_009_346_304,
    "meta-llama--Llama-3.1-8B": 8_030_261_248,
    "meta-llama--Llama-3.3-70B-Instruct": 70_553_706_496,
    "meta-llama--Llama-4-Scout-17B-16E-Instruct": 107_769_861_120,
    "microsoft--phi-4": 14_659_507_200,
    "mistralai--Mistral-7B-v0.3": 7_248_023_552,
    "mistralai--Mixtral-8x7B-v0.1": 46_702_792_704,
    "openai--gpt-oss-20b": 20_914_757_184,
}
# name: layers of each (kind, window), elements kept for one token in one layer
CACHES = {
    "Qwen--Qwen2.5-7B": ({("full", None): 28}, 2 * 4 * 128),
    "Qwen--Qwen3-30B-A3B": ({("full", None): 48}, 2 * 4 * 128),
    "Qwen--Qwen3-8B": ({("full", None): 36}, 2 * 8 * 128),
    "deepseek-ai--DeepSeek-V3": ({("latent", None): 61}, 512 + 64),
    "google--gemma-2-9b": ({("sliding", 4096): 21, ("full", None): 21}, 2 * 8 * 256),
    "google--gemma-3-27b-it": ({("sliding", 1024): 52, ("full", None): 10}, 2 * 16 * 128),
    "meta-llama--Llama-3.1-8B": ({("full", None): 32}, 2 * 8 * 128),
    "meta-llama--Llama-4-Scout-17B-16E-Instruct": ({("chunked", 8192): 36, ("full", None): 12}, 2 * 8 * 128),
    "mistralai--Mistral-7B-v0.3": ({("full", None): 32}, 2 * 8 * 128),
    "microsoft--phi-4": ({("full", None): 40}, 2 * 10 * 128),
    "openai--gpt-oss-20b": ({("sliding", 128): 12, ("full", None): 12}, 2 * 8 * 64),
}
GIB = 1024**3


def read(name: str) -> dict:
    return json.loads((EXAMPLES / name / "config.json").read_text())


@pytest.mark.parametrize("name", TOTALS)
def test_stored_elements_equal_the_published_total(name):
    assert describe(read(name)).num_stored_elements == TOTALS[name]


@pytest.mark.parametrize("name", CACHES)
def test_layer_kinds_and_cache_widths(name):
    attentions = [layer.attention for layer in describe(read(name)).layers]
    kinds, width = CACHES[name]
    assert Counter((attention.kind, attention.window) for attention in attentions) == kinds
    assert {attention.cache_width for attention in attentions} == {width}


def test_every_sixth_layer_of_gemma_3_is_full():
    layers = describe(read("google--gemma-3-27b-it")).layers
    assert [layer.index for layer in layers if layer.attention.kind == "full"] == [5 + 6 * n for n in range(10)]


@pytest.mark.parametrize(
    "name, tokens, gib",
    [
        ("meta-llama--Llama-3.1-8B", 32_768, 4.000),
        ("deepseek-ai--DeepSeek-V3", 32_768, 2.145),
        ("google--gemma-3-27b-it", 131_072, 10.41),
        ("openai--gpt-oss-20b", 131_072, 3.003),
    ],
)
def test_cache_of_one_sequence_in_bf16(name, tokens, gib):
    """The figures of the peers' survey: windows hold what a sliding layer looks back to."""
    kept = sum(
        min(tokens, layer.attention.window or tokens) * layer.attention.cache_width
        for layer in describe(read(name)).layers
    )
    assert kept * 2 / GIB == pytest.approx(gib, abs=0.005)


QWEN_1 = {"model_type": "qwen", "kv_channels": 128, "no_bias": True, "tie_word_embeddings": False}


@pytest.mark.parametrize(
    "config, parameters",
    [
        # Qwen-7B by hand: 2 x 151,936 x 4096 + 32 x (4096 x 12288 + 12288 + 4096^2 + 3 x 4096 x 11008 + 8192) + 4096
        ({"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "intermediate_size": 22016,
          "vocab_size": 151_936}, 7_721_324_544),
        # Qwen-1.8B, as published
        ({"hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 11008,
          "vocab_size": 151_936}, 1_836_828_672),
    ],
)  # fmt: skip
def test_first_qwen_without_a_class_in_transformers(config, parameters):
    architecture = describe({**QWEN_1, **config})
    assert architecture.num_parameters == parameters
    assert {layer.attention.cache_width for layer in architecture.layers} == {2 * config["hidden_size"]}


def test_kimi_k2_is_built_like_deepseek_v3():
    config = read("deepseek-ai--DeepSeek-V3")
    kimi = describe({**config, "model_type": "kimi_k2"})
    assert kimi.model_type == "kimi_k2"
    assert kimi.parameters == describe(config).parameters


def test_wrappers_say_that_the_other_side_is_not_counted():
    codes = {note.code for note in describe(read("google--gemma-3-27b-it")).notes}
    assert codes == {"architecture.text-side-only", "architecture.assumed-defaults"}


def test_prediction_layers_of_deepseek_are_noted():
    (note,) = describe(read("deepseek-ai--DeepSeek-V3")).notes
    assert note.code == "architecture.prediction-layers"


@pytest.mark.oracle
@pytest.mark.parametrize("name", TOTALS)
def test_full_size_parameters_equal_those_of_transformers(name):
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    config = read(name)
    made = transformers.AutoConfig.for_model(**config)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(made.get_text_config())
    theirs = {key: tuple(parameter.shape) for key, parameter in model.named_parameters()}
    assert {parameter.name: parameter.shape for parameter in describe(config).parameters} == theirs


@pytest.mark.oracle
def test_gemma_3_splits_into_text_and_vision():
    """27,432,406,640 in all: 27,009,346,304 of text, 423,060,336 of vision and projection."""
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    config = read("google--gemma-3-27b-it")
    with torch.device("meta"):
        model = transformers.AutoModelForImageTextToText.from_config(transformers.AutoConfig.for_model(**config))
    sizes = {key: parameter.numel() for key, parameter in model.named_parameters()}
    text = sum(size for key, size in sizes.items() if "language_model" in key)
    assert sum(sizes.values()) == 27_432_406_640
    assert text == describe(config).num_parameters == 27_009_346_304
