"""Bad configs: every one ends in an error that names file and key, never in a guess or another exception."""

from __future__ import annotations

import copy
import json
import tracemalloc
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_configs import GENERATORS, random_config

from capienza.architecture.registry import describe, model_types
from capienza.errors import InputError

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "configs").glob("*/config.json"))
LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "intermediate_size": 100,
    "vocab_size": 100,
}
QWEN3 = {**LLAMA, "model_type": "qwen3"}
MIXTRAL = {**LLAMA, "model_type": "mixtral", "num_local_experts": 4}
LATENT = {
    **LLAMA,
    "model_type": "deepseek_v3",
    "moe_intermediate_size": 8,
    "n_routed_experts": 16,
    "kv_lora_rank": 8,
    "num_key_value_heads": 8,
}
QWEN3_MOE = {**LLAMA, "model_type": "qwen3_moe", "moe_intermediate_size": 8, "num_experts": 16}
LLAMA4 = {**LLAMA, "model_type": "llama4_text", "intermediate_size_mlp": 200, "num_local_experts": 4}
LLAMA4 |= {"num_experts_per_tok": 1, "max_position_embeddings": 9}
FALCON = {"model_type": "falcon", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 8, "vocab_size": 9}
MPT = {"model_type": "mpt", "d_model": 16, "n_layers": 2, "n_heads": 2, "vocab_size": 9}

# config, what is changed, key that the error names, part of its code
CASES = [
    (LLAMA, {"model_type": None}, "model_type", "missing-key"),
    (LLAMA, {"model_type": 3}, "model_type", "not-a-text"),
    (LLAMA, {"model_type": "lama"}, "model_type", "unknown-model-type"),
    (LLAMA, {"model_type": ""}, "model_type", "unknown-model-type"),
    (LLAMA, {"model_type": "../llama"}, "model_type", "unknown-model-type"),
    (LLAMA, {"model_type": "families.llama"}, "model_type", "unknown-model-type"),
    (LLAMA, {"model_type": "__init__"}, "model_type", "unknown-model-type"),
    (LLAMA, {"model_type": "llama" * 999}, "model_type", "unknown-model-type"),
    (LLAMA, {"hidden_size": None}, "hidden_size", "missing-key"),
    (LLAMA, {"num_hidden_layers": None}, "num_hidden_layers", "missing-key"),
    (LLAMA, {"num_attention_heads": None}, "num_attention_heads", "missing-key"),
    (LLAMA, {"intermediate_size": None}, "intermediate_size", "missing-key"),
    (LLAMA, {"vocab_size": None}, "vocab_size", "missing-key"),
    (LLAMA, {"num_key_value_heads": 0}, "num_key_value_heads", "out-of-bounds"),
    (LLAMA, {"num_key_value_heads": -4}, "num_key_value_heads", "out-of-bounds"),
    (LLAMA, {"num_key_value_heads": 3}, "num_key_value_heads", "broken-rule"),
    (LLAMA, {"num_key_value_heads": 16}, "num_key_value_heads", "broken-rule"),
    (LLAMA, {"num_key_value_heads": "4"}, "num_key_value_heads", "not-an-integer"),
    (LLAMA, {"hidden_size": True}, "hidden_size", "not-an-integer"),
    (LLAMA, {"hidden_size": 64.0}, "hidden_size", "not-an-integer"),
    (LLAMA, {"hidden_size": [64]}, "hidden_size", "not-an-integer"),
    (LLAMA, {"hidden_size": 0}, "hidden_size", "out-of-bounds"),
    (LLAMA, {"hidden_size": 2**31}, "hidden_size", "out-of-bounds"),
    (LLAMA, {"hidden_size": 10**5000}, "hidden_size", "out-of-bounds"),
    (LLAMA, {"hidden_size": 63}, "num_attention_heads", "broken-rule"),
    (LLAMA, {"num_hidden_layers": 10_001}, "num_hidden_layers", "out-of-bounds"),
    (LLAMA, {"head_dim": 0}, "head_dim", "out-of-bounds"),
    (LLAMA, {"attention_bias": "yes"}, "attention_bias", "not-a-flag"),
    (LLAMA, {"tie_word_embeddings": 1}, "tie_word_embeddings", "not-a-flag"),
    (LLAMA, {"architectures": "LlamaForCausalLM"}, "architectures", "not-a-list"),
    (LLAMA, {"architectures": [3]}, "architectures[0]", "not-a-text"),
    (LLAMA, {"layer_types": ["full_attention"]}, "layer_types", "broken-rule"),
    (LLAMA, {"layer_types": ["full_attention", "conv"]}, "layer_types[1]", "not-understood"),
    (LLAMA, {"layer_types": ["full_attention", "sliding_attention"]}, "layer_types[1]", "broken-rule"),
    (LLAMA, {"per_layer_config": {"0": {"head_dim": 8}}}, "per_layer_config", "not-understood"),
    (QWEN3, {"layer_types": ["full_attention"] * 3}, "layer_types", "broken-rule"),
    (QWEN3, {"layer_types": ["full_attention", "sliding_attention"]}, "sliding_window", "broken-rule"),
    ({**LLAMA, "model_type": "qwen2_vl"}, {"head_dim": 4}, "head_dim", "broken-rule"),
    (QWEN3, {"layer_types": "full_attention"}, "layer_types", "not-a-list"),
    (QWEN3, {"use_sliding_window": True, "sliding_window": 0}, "sliding_window", "out-of-bounds"),
    (MIXTRAL, {"num_local_experts": 65_537}, "num_local_experts", "out-of-bounds"),
    (MIXTRAL, {"num_local_experts": 4, "num_experts_per_tok": 5}, "num_experts_per_tok", "broken-rule"),
    (MIXTRAL, {"num_experts": 8}, "num_local_experts", "broken-rule"),
    (LATENT, {"first_k_dense_replace": -1}, "first_k_dense_replace", "out-of-bounds"),
    (LATENT, {"moe_layer_freq": 2}, "moe_layer_freq", "not-understood"),
    (QWEN3_MOE, {"mlp_only_layers": [0, 2]}, "mlp_only_layers[1]", "out-of-bounds"),
    (QWEN3_MOE, {"mlp_only_layers": [-1]}, "mlp_only_layers[0]", "out-of-bounds"),
    (LLAMA4, {"moe_layers": [1000]}, "moe_layers[0]", "out-of-bounds"),
    (LATENT, {"kv_lora_rank": None}, "kv_lora_rank", "missing-key"),
    (FALCON, {"new_decoder_architecture": True, "num_kv_heads": 3}, "num_kv_heads", "broken-rule"),
    ({"model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_head": 2, "vocab_size": 5}, {"add_cross_attention": True},
     "add_cross_attention", "not-understood"),
    ({"model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_head": 2, "vocab_size": 5}, {"n_head": 3},
     "n_head", "broken-rule"),
    (MPT, {"no_bias": False}, "no_bias", "not-understood"),
    (MPT, {"expansion_ratio": 3}, "expansion_ratio", "not-understood"),
    (MPT, {"attn_config": {"alibi": False}}, "attn_config.alibi", "not-understood"),
    (MPT, {"attn_config": {"attn_type": "multiquery_attention"}}, "attn_config.attn_type", "not-understood"),
    ({**LLAMA, "model_type": "qwen"}, {"intermediate_size": 101}, "intermediate_size", "broken-rule"),
    ({"model_type": "gemma3", "text_config": {"num_hidden_layers": 0}}, {}, "text_config.num_hidden_layers",
     "out-of-bounds"),
    ({"model_type": "gemma3"}, {}, "text_config", "missing-key"),
    ({"model_type": "gemma3", "text_config": []}, {}, "text_config", "not-a-part"),
    ({"model_type": "llava", "text_config": {"model_type": "mystery"}}, {}, "text_config.model_type",
     "unknown-model-type"),
    ({"model_type": "llava", "text_config": {"model_type": "llava", "text_config": {}}}, {}, "text_config.model_type",
     "not-understood"),
]  # fmt: skip


def outcome(config):
    """The architecture, or the one kind of error that a bad config may end in."""
    try:
        return describe(config)
    except InputError as error:
        return error


@pytest.mark.parametrize("config, change, key, code", CASES)
def test_bad_config_is_refused_with_file_and_key(config, change, key, code):
    with pytest.raises(InputError) as caught:
        describe({**config, **change}, "model/config.json")
    assert caught.value.place.file == "model/config.json"
    assert caught.value.place.key == key
    assert caught.value.message.code == f"architecture.{code}"
    (shown,) = caught.value.as_dict()
    assert len(shown["message"]) < 600


@pytest.mark.parametrize("config", [LLAMA, QWEN3, MIXTRAL, LATENT, QWEN3_MOE, LLAMA4, FALCON])
def test_the_configs_of_the_table_are_good(config):
    assert len(describe(config).layers) == 2


@pytest.mark.parametrize("config", [[], None, "llama", 3])
def test_a_document_that_is_not_an_object(config):
    with pytest.raises(InputError, match="not a JSON object"):
        describe(config)


def test_unknown_type_names_the_near_ones_and_the_direction_of_a_guess():
    with pytest.raises(InputError) as caught:
        describe({"model_type": "qwen3moe"})
    text = str(caught.value)
    assert "qwen3_moe" in text
    assert "too much cache" in text
    assert "too few weights" in text


def test_every_listed_type_refuses_an_empty_config_by_a_key_or_describes_it():
    for model_type in model_types():
        result = outcome({"model_type": model_type})
        assert result.place.key if isinstance(result, InputError) else result.layers


def test_defaults_taken_are_noted():
    architecture = describe({**LLAMA, "model_type": "mistral", "num_key_value_heads": 8})
    (note,) = architecture.notes
    assert note.code == "architecture.assumed-defaults"
    assert "sliding_window = 4096" in str(note)


def test_another_head_is_noted():
    (note,) = describe({**LLAMA, "max_position_embeddings": 9, "architectures": ["LlamaForRewardModel"]}).notes
    assert note.code == "architecture.other-head"


def test_a_window_that_the_class_does_not_use_is_noted():
    (note,) = describe({**LLAMA, "max_position_embeddings": 9, "sliding_window": 4}).notes
    assert note.code == "architecture.unused-window"


@pytest.mark.parametrize(
    "config, change, key",
    [
        (QWEN3_MOE, {"decoder_sparse_step": 3}, "num_experts"),
        (QWEN3_MOE, {"mlp_only_layers": [0, 1]}, "num_experts"),
        (LATENT, {"first_k_dense_replace": 999}, "n_routed_experts"),
        (LLAMA4, {"moe_layers": []}, "num_local_experts"),
        (LLAMA4, {"interleave_moe_layer_step": 3}, "num_local_experts"),
        (LLAMA, {"num_local_experts": 8}, "num_local_experts"),
    ],
)
def test_experts_that_no_layer_holds_are_noted(config, change, key):
    architecture = describe({**config, **change})
    assert not any(parameter.role == "expert" for parameter in architecture.parameters)
    (note,) = [note for note in architecture.notes if note.code == "architecture.no-layer-with-experts"]
    assert note.parameters["key"] == key


@pytest.mark.parametrize(
    "model_type, name, is_noted",
    [
        ("llama", "LlamaForCausalLM", False),
        ("llama", "MixtralForCausalLM", True),
        ("llama", "GPT2LMHeadModel", True),
        ("llama", "MyOwnForCausalLM", False),
        ("kimi_k2", "DeepseekV3ForCausalLM", False),
        ("llama4_text", "Llama4ForCausalLM", False),
    ],
)
def test_a_class_of_another_type_is_noted(model_type, name, is_noted):
    base = {"kimi_k2": LATENT, "llama4_text": LLAMA4}.get(model_type, LLAMA)
    codes = [note.code for note in describe({**base, "model_type": model_type, "architectures": [name]}).notes]
    assert ("architecture.other-class" in codes) is is_noted


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_published_configs_contradict_themselves_nowhere(path):
    codes = {note.code for note in describe(json.loads(path.read_text())).notes}
    assert not codes & {"architecture.other-class", "architecture.no-layer-with-experts"}


def test_the_largest_accepted_model_stays_small_in_memory():
    config = {**MIXTRAL, "num_hidden_layers": 10_000, "num_local_experts": 65_536}
    tracemalloc.start()
    architecture = describe(config)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(architecture.layers) == 10_000
    assert peak_bytes < 64 * 2**20


ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([-1, 0, 1, 2, 3, 7, 64, 65_536, 2**31, 2**63, 10**400]),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["full_attention", "sliding_attention", *model_types()]),
    st.lists(st.one_of(st.integers(), st.none(), st.text(max_size=3)), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


@st.composite
def damaged(draw):
    """A valid config, real or small, with a few keys deleted, replaced or added, at the top or in its parts."""
    if draw(st.booleans()):
        config = json.loads(draw(st.sampled_from(EXAMPLES)).read_text())
    else:
        config = random_config(draw(st.sampled_from(sorted(GENERATORS))), draw(st.integers(0, 99)))
    config = copy.deepcopy(config)
    for _ in range(draw(st.integers(1, 4))):
        parts = [config, *(value for value in config.values() if isinstance(value, dict))]
        part = draw(st.sampled_from(parts))
        if not part:
            continue
        key = draw(st.sampled_from(sorted(part)))
        if draw(st.booleans()):
            del part[key]
        else:
            part[key] = draw(ODD)
    return config


@settings(max_examples=400, deadline=None)
@given(damaged())
def test_damaged_configs_end_in_an_input_error_or_an_architecture(config):
    result = outcome(config)
    if isinstance(result, InputError):
        assert result.place.key is not None
        assert result.as_dict()[0]["hint"]
        return
    assert result.num_parameters > 0
    assert all(str(note) for note in result.notes)
    assert all(size >= 0 for parameter in result.parameters for size in parameter.shape)
    for layer in result.layers:
        assert layer.attention is None or layer.attention.cache_width > 0


def test_equal_configs_give_equal_architectures():
    for model_type in GENERATORS:
        config = random_config(model_type, Random(model_type).randint(0, 9))
        assert describe(config) == describe(copy.deepcopy(config))
