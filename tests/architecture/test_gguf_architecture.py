"""GGUF metadata and tensor tables as architectures: hand-worked cases and real tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gguf_cases import GROUPED, SSM, described, geometries, table
from hypothesis import given
from hypothesis import strategies as st

from capienza.architecture.gguf import describe_gguf
from capienza.architecture.registry import describe
from capienza.artifacts.gguf_values import LongValue
from capienza.formats.tensor import Tensor

DATA = Path(__file__).parent / "data"


def windows(architecture) -> list[int | None]:
    return [layer.attention.window for layer in architecture.layers]


# --- which blocks are windowed ---------------------------------------------------------------------------------

W, F = 8, None


@pytest.mark.parametrize(
    "name, keys, expected",
    [
        ("gemma2", {"attention__sliding_window": W}, [W, F, W, F, W, F, W, F]),
        ("gemma2", {}, [4096, F] * 4),
        ("gemma3", {"attention__sliding_window": W}, [W, W, W, W, W, F, W, W]),
        ("gemma3", {}, [F] * 8),
        ("gemma3", {"attention__sliding_window": 0}, [F] * 8),
        ("gemma3", {"attention__sliding_window": W, "attention__sliding_window_pattern": 3}, [W, W, F, W, W, F, W, W]),
        (
            "gemma3",
            {"attention__sliding_window": W, "attention__sliding_window_pattern": [True, False] * 4},
            [W, F] * 4,
        ),
        ("gpt-oss", {"attention__sliding_window": W}, [W, F] * 4),
        ("cohere2", {"attention__sliding_window": W}, [W, W, W, F] * 2),
        ("cohere2moe", {"attention__sliding_window": W}, [F, W, W, W] * 2),
        ("laguna", {"attention__sliding_window": W}, [F, W, W, W] * 2),
        ("laguna", {"attention__sliding_window": 0}, [F] * 8),
        ("llama4", {}, [8192, 8192, 8192, F] * 2),
        ("llama4", {"attention__sliding_window": 0}, [F] * 8),
        ("smallthinker", {"attention__sliding_window": W}, [F, 4096, 4096, 4096] * 2),
        ("smallthinker", {}, [F] * 8),
        ("exaone4", {"attention__sliding_window": W}, [F] * 8),
        ("mimo2", {"attention__sliding_window": W, "attention__sliding_window_pattern": [0, 1] * 4}, [F, W] * 4),
        ("phi3", {"attention__sliding_window": W}, [F] * 8),
        ("llama", {"attention__sliding_window": W}, [F] * 8),
        ("qwen2", {}, [F] * 8),
    ],
)
def test_windowed_blocks(name, keys, expected):
    architecture = described(name, block_count=8, **keys)
    assert windows(architecture) == expected
    kinds = {layer.attention.kind for layer in architecture.layers if layer.attention.window}
    assert kinds <= ({"chunked"} if name == "llama4" else {"sliding"})


def test_exaone4_has_windows_only_in_its_large_model():
    architecture = described("exaone4", block_count=64, attention__sliding_window=W)
    assert windows(architecture) == [W, W, W, F] * 16


def test_a_window_that_llama_cpp_ignores_is_reported():
    notes = described("llama", attention__sliding_window=4096).notes
    assert [(note.code, note.parameters) for note in notes] == [("architecture.gguf-unused-window", {"window": 4096})]


def test_lfm2_windows_every_attention_block_when_it_states_one():
    keys = {"attention__head_count_kv": [0, 2, 0, 2], "shortconv__l_cache": 3, "attention__sliding_window": W}
    layers = described("lfm2", **keys).layers
    assert [layer.attention.window if layer.attention else "none" for layer in layers] == ["none", W, "none", W]


@given(blocks=st.integers(1, 60), pattern=st.integers(1, 9))
def test_one_block_in_a_pattern_is_full(blocks, pattern):
    keys = {"attention__sliding_window": W, "attention__sliding_window_pattern": pattern}
    found = windows(described("gemma3", block_count=blocks, **keys))
    assert found.count(None) == blocks // pattern
    assert [index for index, window in enumerate(found) if window is None] == [*range(pattern - 1, blocks, pattern)]


# --- widths ----------------------------------------------------------------------------------------------------


def test_heads_and_sizes_have_the_defaults_of_llama_cpp():
    attention = described("llama").layers[0].attention
    assert (attention.num_key_value_heads, attention.key_head_dim, attention.value_head_dim) == (4, 16, 16)
    assert attention.cache_width == 2 * 4 * 16


def test_zero_kv_heads_mean_no_attention_there():
    layers = described("deci", attention__head_count=[4, 0, 4, 4], attention__head_count_kv=[2, 0, 1, 4]).layers
    widths = [layer.attention.cache_width if layer.attention else 0 for layer in layers]
    assert widths == [2 * 2 * 16, 0, 2 * 1 * 16, 2 * 4 * 16]


def test_windowed_blocks_may_have_heads_of_their_own():
    keys = {
        "attention__sliding_window": W,
        "attention__sliding_window_pattern": [True, True, False, True],
        "attention__key_length": 512,
        "attention__value_length": 512,
        "attention__key_length_swa": 256,
        "attention__value_length_swa": 256,
    }
    layers = described("gemma4", **keys).layers
    assert [layer.attention.key_head_dim for layer in layers] == [256, 256, 512, 256]


def test_a_latent_cache_keeps_k_only():
    # DeepSeek-R1: 61 blocks x (512 + 64) elements are 68.6 KiB for each token in fp16
    mla = {
        "attention__head_count": 128,
        "attention__head_count_kv": 1,
        "attention__key_length": 576,
        "attention__value_length": 512,
        "attention__key_length_mla": 192,
        "attention__value_length_mla": 128,
    }
    layers = described("deepseek2", block_count=61, **mla).layers
    assert {layer.attention.kind for layer in layers} == {"latent"}
    assert sum(2 * layer.attention.cache_width for layer in layers) == 70_272


def test_an_older_file_of_the_same_model_keeps_71_times_as_much():
    full = {"attention__head_count": 128, "attention__key_length": 192, "attention__value_length": 128}
    layers = described("deepseek2", block_count=61, **full).layers
    assert {layer.attention.kind for layer in layers} == {"full"}
    assert sum(2 * layer.attention.cache_width for layer in layers) == 61 * 128 * (192 + 128) * 2
    assert round(128 * (192 + 128) / 576) == 71


def test_gemma3n_shares_the_last_cache_of_each_kind():
    keys = {"attention__sliding_window": 512, "attention__head_count_kv": 2, "attention__key_length": 256}
    layers = described("gemma3n", block_count=35, attention__value_length=256, **keys).layers
    assert [layer.attention.shares_cache_of for layer in layers[:20]] == [None] * 20
    for layer in layers[20:]:
        source = layer.attention.shares_cache_of
        assert source == (18 if layer.attention.window else 19)
        assert layers[source].attention.window == layer.attention.window
        assert layer.attention.cache_width == 0
    # 32768 cells of 4 full blocks: 256 MiB, as a public log of this model prints
    full = [layer for layer in layers if layer.attention.window is None]
    assert sum(2 * 32768 * layer.attention.cache_width for layer in full) == 256 * 2**20


def test_gemma4_shares_as_many_blocks_as_it_states():
    pattern = [True, True, False] * 4
    keys = {"attention__sliding_window": W, "attention__sliding_window_pattern": pattern}
    layers = described("gemma4", block_count=12, attention__shared_kv_layers=6, **keys).layers
    assert [layer.attention.shares_cache_of for layer in layers] == [None] * 6 + [4, 4, 5] * 2


# --- recurrent states ------------------------------------------------------------------------------------------

BOTH = [(3, 96 + 2 * 2 * 16), (16, 96)]


@pytest.mark.parametrize(
    "name, keys, expected",
    [
        # for each block: A attention, S state, X both, - neither; then the shapes of a state
        ("mamba", SSM | {"attention__head_count": 0}, ("SSSS", [(3, 96), (16, 96)])),
        ("mamba2", GROUPED | {"attention__head_count": 0}, ("SSSS", BOTH)),
        ("mamba2", GROUPED | {"attention__head_count": None}, ("SSSS", BOTH)),
        ("jamba", SSM | {"attention__head_count_kv": [0, 2, 0, 0]}, ("SASS", [(3, 96), (16, 96)])),
        ("granitehybrid", GROUPED | {"attention__head_count_kv": [0, 0, 2, 0]}, ("SSAS", BOTH)),
        ("falcon-h1", GROUPED | {"attention__head_count_kv": 2}, ("XXXX", BOTH)),
        (
            "nemotron_h",
            GROUPED | {"attention__head_count_kv": [0, 2, 0, 0], "feed_forward_length": [0, 0, 128, 0]},
            ("SA-S", BOTH),
        ),
        ("qwen3next", GROUPED, ("SSSA", BOTH)),
        ("qwen35", GROUPED | {"full_attention_interval": 2}, ("SASA", BOTH)),
        ("qwen35moe", GROUPED | {"attention__recurrent_layers": [True, False, False, True]}, ("SAAS", BOTH)),
        ("lfm2", {"attention__head_count_kv": [0, 2, 2, 0], "shortconv__l_cache": 3}, ("SAAS", [(2, 64)])),
        ("rwkv6", {"attention__head_count": 0, "wkv__head_size": 16}, ("SSSS", [(2, 64), (16, 64)])),
        ("rwkv7", {"wkv__head_size": 16, "token_shift_count": 1}, ("SSSS", [(1, 64), (16, 64)])),
        (
            "kimi-linear",
            {"attention__head_count_kv": [0, 0, 0, 1], "kda__head_dim": 8, "ssm__conv_kernel": 4},
            ("SSSA", [(3, 3 * 4 * 8), (4, 8, 8)]),
        ),
        ("minimax-01", {"full_attention_interval": 4}, ("SSSA", [(4, 16, 16)])),
    ],
)
def test_recurrent_blocks_and_their_states(name, keys, expected):
    pattern, shapes = expected
    layers = described(name, **keys).layers
    letters = {(True, False): "A", (False, True): "S", (True, True): "X", (False, False): "-"}
    assert "".join(letters[bool(layer.attention), bool(layer.state)] for layer in layers) == pattern
    for layer in layers:
        if layer.state:
            assert [part.shape for part in layer.state.parts] == shapes
            assert {part.dtype for part in layer.state.parts} == {"fp32"}


# --- the tensor table ------------------------------------------------------------------------------------------


def real_table(name: str):
    """Metadata and tensor table of a public file, without its data."""
    stored = json.loads((DATA / f"{name}.gguf.json").read_text())
    values = {
        key: LongValue(*value["long"]) if isinstance(value, dict) else value
        for key, value in stored["metadata"].items()
    }
    return values, [Tensor(name, tuple(shape), kind, size) for name, shape, kind, size in stored["tensors"]]


def test_smollm2_135m():
    architecture = describe_gguf(*real_table("smollm2-135m"), "SmolLM2-135M-Instruct.Q4_1.gguf")
    assert architecture.num_parameters == 134_515_008
    assert (architecture.vocab_size, architecture.hidden_size, architecture.tied_head) == (49152, 576, True)
    assert architecture.max_position_embeddings == 8192
    assert [layer.attention.cache_width for layer in architecture.layers] == [2 * 192] * 30
    assert {layer.mlp.intermediate_size for layer in architecture.layers} == {1536}


def test_gemma3_270m():
    architecture = describe_gguf(*real_table("gemma3-270m"), "gemma-3-270m-q4_k_m.gguf")
    assert architecture.num_parameters == 268_098_176
    assert (architecture.vocab_size, architecture.tied_head) == (262_144, True)
    assert windows(architecture) == [512, 512, 512, 512, 512, None] * 3
    assert {layer.attention.cache_width for layer in architecture.layers} == {512}
    norms = [parameter for parameter in architecture.parameters if parameter.role == "norm"]
    assert len(norms) == 18 * 6 + 1


def test_the_same_model_from_its_config_and_from_its_file():
    config = {
        "model_type": "llama",
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "vocab_size": 49152,
        "max_position_embeddings": 8192,
        "tie_word_embeddings": True,
    }
    ours = describe_gguf(*real_table("smollm2-135m"), "a.gguf")
    theirs = describe(config)
    assert ours.layers == theirs.layers
    assert ours.num_parameters == theirs.num_parameters
    for role in ("attention", "mlp", "norm", "embedding"):
        sizes = [
            sorted(parameter.shape for parameter in one.parameters if parameter.role == role) for one in (ours, theirs)
        ]
        assert sizes[0] == sizes[1]


def test_a_hybrid_from_its_config_and_from_its_file():
    config = {
        "model_type": "qwen3_5_text",
        "hidden_size": 5120,
        "intermediate_size": 17408,
        "num_hidden_layers": 64,
        "num_attention_heads": 24,
        "num_key_value_heads": 4,
        "linear_num_value_heads": 48,
        "vocab_size": 248320,
    }
    keys, tensors = geometries().M["qwen3.6-27b"]
    ours, theirs = describe_gguf(keys, table(tensors), "a.gguf"), describe(config)
    assert ours.num_parameters == theirs.num_parameters
    for layer, other in zip(ours.layers, theirs.layers, strict=True):
        assert (layer.attention, layer.mlp) == (other.attention, other.mlp)
        assert (layer.state is None) == (other.state is None)
        if layer.state:
            assert layer.state.kind == other.state.kind
            for part, same in zip(layer.state.parts, other.state.parts, strict=True):
                assert (part.name, part.elements) == (same.name, same.elements)


@pytest.mark.parametrize(
    "name, parameters",
    [
        ("llama3.1-8b", 8_030_261_248),
        ("mixtral-8x7b", 46_702_792_704),
        ("qwen2.5-7b", 7_615_616_512),
        ("qwen3-32b", 32_762_123_264),
        ("qwen3-30b-a3b", 30_532_122_624),
        ("qwen3-235b-a22b", 235_093_634_560),
        ("deepseek-r1", 671_026_404_352),
        ("deepseek-v2-lite", 15_706_484_224),
        ("gpt-oss-20b", 20_914_757_184),
        ("gemma3-27b", 27_009_002_240),
        ("lfm2-1.2b", 1_170_340_608),
    ],
)
def test_parameters_of_whole_tables(name, parameters):
    keys, tensors = geometries().M[name]
    assert describe_gguf(keys, table(tensors), name).num_parameters == parameters


def test_experts_come_from_the_tensors():
    keys, tensors = geometries().M["deepseek-v2-lite"]
    architecture = describe_gguf(keys, table(tensors), "model.gguf")
    assert (architecture.layers[0].mlp.kind, architecture.layers[0].mlp.intermediate_size) == ("dense", 10944)
    mlp = architecture.layers[1].mlp
    assert (mlp.kind, mlp.intermediate_size, mlp.num_experts, mlp.num_experts_per_token) == ("experts", 1408, 64, 6)
    assert mlp.num_shared_experts == 2
    assert architecture.tied_head is False
    roles = {parameter.name: parameter.role for parameter in architecture.parameters}
    assert roles["blk.1.ffn_down_exps.weight"] == "expert"
    assert roles["blk.1.ffn_down_shexp.weight"] == "mlp"
    assert roles["blk.1.ffn_gate_inp.weight"] == "router"
    assert roles["blk.1.attn_kv_a_mqa.weight"] == "attention"
    assert (roles["token_embd.weight"], roles["output.weight"]) == ("embedding", "head")


def test_older_files_keep_each_expert_apart():
    shapes = {f"blk.0.ffn_{part}.{index}.weight": (32, 64) for part in ("gate", "up") for index in range(8)}
    shapes |= {f"blk.0.ffn_down.{index}.weight": (64, 32) for index in range(8)}
    extra = tuple(Tensor(name, shape, "fp16", 0) for name, shape in shapes.items())
    architecture = described("llama", extra, expert_used_count=2)
    mlp = architecture.layers[0].mlp
    assert (mlp.kind, mlp.intermediate_size, mlp.num_experts, mlp.num_experts_per_token) == ("experts", 32, 8, 2)
    assert {parameter.role for parameter in architecture.parameters if ".ffn_" in parameter.name} == {"expert"}


def test_what_is_no_parameter_is_left_out():
    extra = (
        Tensor("rope_freqs.weight", (16,), "fp32", 64),
        Tensor("blk.0.rope_factors_long.weight", (16,), "fp32", 64),
        Tensor("blk.0.attn_q.scale", (1,), "fp32", 4),
        Tensor("blk.0.exp_probs_b.bias", (8,), "fp32", 32),
    )
    architecture = described("llama", extra)
    assert architecture.num_parameters == described("llama").num_parameters
    assert [(buffer.name, buffer.role) for buffer in architecture.buffers] == [("blk.0.exp_probs_b.bias", "router")]


def test_tensors_of_a_recurrent_mixer_are_state():
    keys, tensors = geometries().M["qwen3.5-9b"]
    architecture = describe_gguf(keys, table(tensors), "model.gguf")
    roles = {parameter.name: parameter.role for parameter in architecture.parameters}
    assert roles["blk.0.attn_qkv.weight"] == roles["blk.0.ssm_out.weight"] == "state"
    assert roles["blk.3.attn_q.weight"] == "attention"


def test_prediction_blocks_are_weights_without_a_cache():
    architecture = described("glm4moe", nextn_predict_layers=1, attention__head_count_kv=2)
    assert len(architecture.layers) == 3
    assert [note.code for note in architecture.notes] == ["architecture.gguf-prediction-blocks"]
    assert any(parameter.layer == 3 for parameter in architecture.parameters)
