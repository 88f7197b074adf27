"""Models with a recurrent state: figures worked by hand, and configs that must be refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hybrid_configs import GENERATORS, hybrid_config
from hypothesis import given
from hypothesis import strategies as st

from capienza.architecture.model import Architecture
from capienza.architecture.registry import describe
from capienza.errors import InputError

EXAMPLES = Path(__file__).parents[2] / "examples" / "configs"
GIB = 2**30


def state_bytes(architecture: Architecture, element_bytes: int = 2) -> int:
    parts = [part for layer in architecture.layers if layer.state for part in layer.state.parts]
    return sum(part.elements * (element_bytes if part.dtype is None else 4) for part in parts)


def cache_bytes_for_each_token(architecture: Architecture) -> int:
    return sum(2 * layer.attention.cache_width for layer in architecture.layers if layer.attention)


def test_qwen3_next_80b():
    config = json.loads((EXAMPLES / "Qwen--Qwen3-Next-80B-A3B-Instruct" / "config.json").read_text())
    architecture = describe(config)
    assert architecture.num_parameters == 79_674_391_296
    assert architecture.notes == ()
    kinds = ["attention" if layer.attention else "state" for layer in architecture.layers]
    assert kinds == ["state", "state", "state", "attention"] * 12
    assert cache_bytes_for_each_token(architecture) * 262_144 == 6 * GIB
    # 36 layers x (3 columns x 8192 channels x 2 B + 32 heads x 128 x 128 x 4 B)
    assert state_bytes(architecture) == 36 * (3 * 8192 * 2 + 32 * 128 * 128 * 4) == 77_266_944
    assert round(state_bytes(architecture) / GIB, 3) == 0.072


# Published dimensions; parameters as the model pages and headers give them, state worked by hand.
CODESTRAL_MAMBA = {
    "model_type": "mamba2",
    "hidden_size": 4096,
    "num_hidden_layers": 64,
    "vocab_size": 32768,
    "num_heads": 128,
    "head_dim": 64,
    "n_groups": 8,
    "state_size": 128,
    "expand": 2,
    "conv_kernel": 4,
    "tie_word_embeddings": False,
}
JAMBA_MINI = {
    "model_type": "jamba",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 65536,
    "num_experts": 16,
    "num_experts_per_tok": 2,
    "attn_layer_period": 8,
    "attn_layer_offset": 4,
    "expert_layer_period": 2,
    "expert_layer_offset": 1,
    "mamba_d_state": 16,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_dt_rank": 256,
    "max_position_embeddings": 262144,
}
QWEN3_5_27B = {
    "model_type": "qwen3_5_text",
    "hidden_size": 5120,
    "intermediate_size": 17408,
    "num_hidden_layers": 64,
    "num_attention_heads": 24,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 48,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "vocab_size": 248320,
}


@pytest.mark.parametrize(
    "config, parameters, token_bytes, sequence_bytes",
    [
        # 7.29 billion parameters on its page; conv 3 x (8192 + 2 x 8 x 128), recurrent 128 x 64 x 128
        (CODESTRAL_MAMBA, 7_285_403_648, 0, 64 * (3 * 10240 * 2 + 128 * 64 * 128 * 4)),
        # 51.6 billion parameters on its page; 4 of 32 layers attend; conv 3 x 8192, recurrent 8192 x 16
        (JAMBA_MINI, 51_570_323_328, 4 * 2 * 8 * 128 * 2, 28 * (3 * 8192 * 2 + 8192 * 16 * 4)),
        # 26 895 998 464 elements in the tensor table of its GGUF; vLLM logs a state of 3 207 168 B a layer
        (QWEN3_5_27B, 26_895_998_464, 16 * 2 * 4 * 256 * 2, 48 * 3_207_168),
    ],
)
def test_published_models(config, parameters, token_bytes, sequence_bytes):
    architecture = describe(config)
    assert architecture.num_parameters == parameters
    assert cache_bytes_for_each_token(architecture) == token_bytes
    assert state_bytes(architecture) == sequence_bytes


@given(model_type=st.sampled_from(sorted(GENERATORS)), seed=st.integers(0, 10_000))
def test_every_layer_keeps_what_its_tensors_say(model_type, seed):
    architecture = describe(hybrid_config(model_type, seed))
    for layer in architecture.layers:
        own = [parameter for parameter in architecture.parameters if parameter.layer == layer.index]
        assert any(parameter.role == "state" for parameter in own) is (layer.state is not None)
        assert any(parameter.role == "attention" for parameter in own) is (layer.attention is not None)
        assert any(parameter.role == "expert" for parameter in own) is bool(layer.mlp and layer.mlp.kind == "experts")
        convolutions = [parameter for parameter in own if len(parameter.shape) == 3 and parameter.role == "state"]
        if layer.state:
            ((channels, _, kernel),) = [parameter.shape for parameter in convolutions]
            assert layer.state.parts[0].shape == (kernel - 1, channels)
        if layer.mlp is None and model_type not in ("mamba", "mamba2"):
            assert model_type == "nemotron_h"


SMALL = {model_type: hybrid_config(model_type, 1) for model_type in GENERATORS}


@pytest.mark.parametrize(
    "model_type, changes, code, key",
    [
        ("qwen3_next", {"linear_num_value_heads": 3, "linear_num_key_heads": 2}, "broken-rule", "linear_num_key"),
        ("qwen3_next", {"layer_types": ["full_attention", "rwkv"], "num_hidden_layers": 2}, "not-understood", "[1]"),
        ("qwen3_next", {"layer_types": ["full_attention"], "num_hidden_layers": 2}, "broken-rule", "layer_types"),
        ("qwen3_next", {"linear_conv_kernel_dim": 0}, "out-of-bounds", "linear_conv_kernel_dim"),
        ("qwen3_next", {"linear_key_head_dim": "128"}, "not-an-integer", "linear_key_head_dim"),
        ("qwen3_next", {"num_experts": 2, "num_experts_per_tok": 3}, "broken-rule", "num_experts_per_tok"),
        ("qwen3_5_text", {"num_attention_heads": 4, "num_key_value_heads": 3}, "broken-rule", "num_key_value_heads"),
        ("mamba", {"time_step_rank": "large"}, "not-an-integer", "time_step_rank"),
        ("mamba", {"expand": 1.5}, "not-an-integer", "expand"),
        ("mamba2", {"num_heads": 3}, "broken-rule", "num_heads"),
        ("mamba2", {"state_size": -1}, "out-of-bounds", "state_size"),
        ("jamba", {"attn_layer_offset": 8, "attn_layer_period": 8}, "broken-rule", "attn_layer_offset"),
        ("jamba", {"num_experts": 2, "num_local_experts": 4}, "broken-rule", "num_experts"),
        ("jamba", {"hidden_size": None}, "missing-key", "hidden_size"),
        ("falcon_h1", {"mamba_n_heads": 7, "mamba_d_ssm": 24, "mamba_d_head": None}, "broken-rule", "mamba_n_heads"),
        ("falcon_h1", {"mamba_n_heads": 64, "mamba_d_ssm": 24, "mamba_d_head": None}, "broken-rule", "mamba_n_heads"),
        ("granitemoehybrid", {"mamba_d_head": 1000}, "broken-rule", "mamba_n_heads"),
        ("granitemoehybrid", {"num_local_experts": -1}, "out-of-bounds", "num_local_experts"),
        ("bamba", {"attn_layer_indices": [100_000]}, "out-of-bounds", "attn_layer_indices[0]"),
        ("bamba", {"attn_layer_indices": {"0": 1}}, "not-a-list", "attn_layer_indices"),
        ("nemotron_h", {"layers_block_type": None, "hybrid_override_pattern": "MX"}, "nemotron-layer", "pattern[1]"),
        ("nemotron_h", {"layers_block_type": None, "hybrid_override_pattern": None}, "missing-key", "pattern"),
        ("nemotron_h", {"layers_block_type": None, "hybrid_override_pattern": ""}, "broken-rule", "pattern"),
        ("nemotron_h", {"layers_block_type": ["moe"], "num_hidden_layers": 5}, "broken-rule", "num_hidden_layers"),
        ("nemotron_h", {"conv_kernel": 4, "mamba_d_conv": 3, "layers_block_type": ["mamba"]}, "broken-rule", ""),
        (
            "lfm2",
            {"block_ffn_dim_multiplier": "1.3", "block_auto_adjust_ff_dim": True},
            "lfm2-multiplier",
            "multiplier",
        ),
        (
            "lfm2",
            {"block_ffn_dim_multiplier": 1e300, "block_auto_adjust_ff_dim": True},
            "lfm2-multiplier",
            "multiplier",
        ),
        ("lfm2", {"full_attn_idxs": [-1], "layer_types": None}, "out-of-bounds", "full_attn_idxs[0]"),
        ("lfm2_moe", {"layer_types": None}, "missing-key", "layer_types"),
        ("granitemoe", {"num_local_experts": 0}, "out-of-bounds", "num_local_experts"),
        ("mamba", {"num_hidden_layers": 10**9}, "out-of-bounds", "num_hidden_layers"),
        ("nemotron_h", {"layers_block_type": None, "hybrid_override_pattern": "M" * 20_000}, "broken-rule", ""),
    ],
)
def test_bad_configs_are_refused_with_their_key(model_type, changes, code, key):
    config = {**SMALL[model_type], **changes}
    if model_type == "nemotron_h" and "num_hidden_layers" not in changes:
        del config["num_hidden_layers"]
    with pytest.raises(InputError) as caught:
        describe(config, "bad.json")
    error = caught.value
    assert error.message.code == f"architecture.{code}"
    assert error.place.file == "bad.json"
    assert key in error.place.key
    assert str(error)


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(0, 9),
    st.floats(allow_nan=True),
    st.text(max_size=5),
    st.lists(st.integers(-1, 9) | st.sampled_from(["mamba", "conv", "full_attention"]), max_size=4),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
)


@given(model_type=st.sampled_from(sorted(GENERATORS)), data=st.data())
def test_any_value_of_any_key_is_described_or_refused(model_type, data):
    config = dict(SMALL[model_type])
    key = data.draw(st.sampled_from(sorted(config.keys() - {"model_type"})))
    config[key] = data.draw(VALUES)
    try:
        architecture = describe(config)
    except InputError as error:
        assert error.place.key, "an error without a key"  # noqa: PT017
    else:
        assert architecture.num_parameters > 0
