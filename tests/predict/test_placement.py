"""Which rank holds what: worked cases, and shards that sum to the whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from capienza.architecture.registry import describe
from capienza.errors import InputError
from capienza.formats.blocks import tensor_bytes
from capienza.predict.placement import Split, check_split, rank_weights, stages

EXAMPLES = Path(__file__).parents[2] / "examples" / "configs"
MODELS = [
    "meta-llama--Llama-3.1-8B", "Qwen--Qwen3-30B-A3B", "deepseek-ai--DeepSeek-V3", "google--gemma-3-27b-it",
    "openai--gpt-oss-20b", "Qwen--Qwen3-Next-80B-A3B-Instruct",
]  # fmt: skip


def architecture_of(name):
    return describe(json.loads((EXAMPLES / name / "config.json").read_text()))


def held(architecture):
    return [(parameter, tensor_bytes(parameter.shape, "bf16")) for parameter in architecture.parameters]


@pytest.mark.parametrize(
    "layers, parallel, sizes",
    [
        (32, 1, [32]),
        (60, 2, [30, 30]),
        (61, 2, [31, 30]),
        (61, 4, [15, 15, 16, 15]),
        (10, 4, [2, 3, 3, 2]),
        (4, 4, [1, 1, 1, 1]),
    ],
)
def test_left_over_layers_go_to_the_stages_before_the_last(layers, parallel, sizes):
    assert [len(stage) for stage in stages(layers, parallel)] == sizes


@pytest.mark.parametrize("layers", [1, 7, 61, 94])
def test_every_layer_is_on_one_stage(layers):
    for parallel in range(1, layers + 1):
        assert [index for stage in stages(layers, parallel) for index in stage] == list(range(layers))


@pytest.mark.parametrize("name", MODELS)
def test_one_rank_holds_the_whole_model(name):
    architecture = architecture_of(name)
    padded = -(-architecture.vocab_size // 64) * 64 - architecture.vocab_size
    tables = 1 if architecture.tied_head else 2
    (rank,) = rank_weights(architecture, held(architecture), Split())
    whole = 2 * architecture.num_parameters
    assert rank.total_bytes == whole + padded * architecture.hidden_size * 2 * tables


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("parallel", [2, 4, 8])
def test_ranks_together_hold_the_model_and_copies_of_what_is_not_cut(name, parallel):
    architecture = architecture_of(name)
    (rank,) = rank_weights(architecture, held(architecture), Split(tensor_parallel=parallel))
    assert parallel * rank.total_bytes >= 2 * architecture.num_parameters
    assert rank.total_bytes < 2 * architecture.num_parameters
    (finer,) = rank_weights(architecture, held(architecture), Split(tensor_parallel=2 * parallel))
    assert finer.total_bytes <= rank.total_bytes


@pytest.mark.parametrize("name", MODELS)
def test_stages_together_hold_the_model(name):
    architecture = architecture_of(name)
    split = Split(pipeline_parallel=3, vocab_multiple=1)
    total = sum(rank.total_bytes for rank in rank_weights(architecture, held(architecture), split))
    copy = 2 * architecture.vocab_size * architecture.hidden_size if architecture.tied_head else 0
    assert total == 2 * architecture.num_parameters + copy


def test_llama_on_two_ranks_to_the_byte():
    """Norms whole, everything else halved: 32 layers x 2 norms and the last, 4096 wide."""
    architecture = architecture_of("meta-llama--Llama-3.1-8B")
    (rank,) = rank_weights(architecture, held(architecture), Split(tensor_parallel=2))
    norms = (32 * 2 + 1) * 4096 * 2
    assert rank.replicated_bytes == norms
    assert rank.sharded_bytes == (16_060_522_496 - norms) // 2


def test_more_ranks_than_key_value_heads_hold_copies():
    architecture = architecture_of("Qwen--Qwen3-30B-A3B")  # 32 heads, 4 of keys and values
    (eight,) = rank_weights(architecture, held(architecture), Split(tensor_parallel=8))
    (four,) = rank_weights(architecture, held(architecture), Split(tensor_parallel=4))
    key_value = 2 * 48 * 128 * 2048 * 2  # one head's projections in every layer
    assert four.sharded_bytes - key_value == pytest.approx(2 * (eight.sharded_bytes - key_value), abs=1000)


@pytest.mark.parametrize(
    "name, split, code",
    [
        ("meta-llama--Llama-3.1-8B", Split(tensor_parallel=3), "predict.heads-not-divisible"),
        ("google--gemma-3-27b-it", Split(tensor_parallel=64), "predict.heads-not-divisible"),
        ("Qwen--Qwen3-30B-A3B", Split(expert_parallel=3), "predict.experts-not-divisible"),
        ("meta-llama--Llama-3.1-8B", Split(pipeline_parallel=33), "predict.too-many-stages"),
    ],
)
def test_impossible_splits_are_refused_by_name(name, split, code):
    with pytest.raises(InputError) as caught:
        check_split(architecture_of(name), split)
    assert caught.value.message.code == code
    assert caught.value.place.key.startswith("placement.")
