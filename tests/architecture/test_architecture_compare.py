"""A checkpoint's tensor table against the architecture: what is explained, and what is reported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from random_configs import GENERATORS, random_config

from capienza.architecture.compare import compare_with_tensors
from capienza.architecture.registry import describe
from capienza.formats.blocks import tensor_bytes
from capienza.formats.tensor import Tensor

EXAMPLES = Path(__file__).parents[2] / "examples" / "configs"


def tensor(name: str, *shape: int, dtype: str = "bf16") -> Tensor:
    return Tensor(name, shape, dtype, tensor_bytes(shape, dtype))


def table(architecture, rename=str, dtype="bf16") -> list[Tensor]:
    kept = (*architecture.parameters, *architecture.buffers)
    return [tensor(rename(parameter.name), *parameter.shape, dtype=dtype) for parameter in kept]


def example(name: str):
    return describe(json.loads((EXAMPLES / name / "config.json").read_text()), name)


@pytest.mark.parametrize("model_type", GENERATORS)
def test_own_parameters_are_explained(model_type):
    architecture = describe(random_config(model_type, 1))
    assert compare_with_tensors(architecture, table(architecture)) == ()


def test_experts_kept_one_by_one_and_rotary_constants_are_explained():
    architecture = example("mistralai--Mixtral-8x7B-v0.1")
    tensors = []
    for parameter in architecture.parameters:
        if parameter.role != "expert":
            tensors.append(tensor(parameter.name.replace("mlp.gate", "block_sparse_moe.gate"), *parameter.shape))
            continue
        stem = parameter.name.replace("mlp.experts", "block_sparse_moe.experts").rpartition(".")[0]
        experts, rows, columns = parameter.shape
        matrices = {"w1": rows // 2, "w3": rows // 2} if "gate_up" in parameter.name else {"w2": rows}
        tensors += [
            tensor(f"{stem}.{index}.{matrix}.weight", size, columns)
            for index in range(experts)
            for matrix, size in matrices.items()
        ]
    tensors.append(tensor("model.layers.0.self_attn.rotary_emb.inv_freq", 64, dtype="fp32"))
    assert compare_with_tensors(architecture, tensors) == ()


def test_deepseek_fp8_with_scales_and_prediction_layer():
    architecture = example("deepseek-ai--DeepSeek-V3")
    tensors = table(architecture, dtype="fp8_e4m3")
    tensors += [tensor(f"{one.name.removesuffix('weight')}weight_scale_inv", 2, 3, dtype="fp32") for one in tensors]
    tensors += [tensor("model.layers.61.eh_proj.weight", 7168, 14336), tensor("model.layers.61.enorm.weight", 7168)]
    (message,) = compare_with_tensors(architecture, tensors)
    assert message.code == "architecture.extra-tensors"
    assert message.parameters["found"] == 7168 * 14336 + 7168
    assert "eh_proj" in str(message)


def test_vision_side_of_a_wrapper_is_named():
    architecture = example("google--gemma-3-27b-it")
    tensors = table(architecture, rename=lambda name: f"language_model.{name}")
    tensors += [
        tensor("vision_tower.vision_model.encoder.layers.0.mlp.fc1.weight", 4304, 1152),
        tensor("multi_modal_projector.mm_input_projection_weight", 1152, 5376),
    ]
    (message,) = compare_with_tensors(architecture, tensors)
    assert message.parameters["what"] == "a vision or audio side"
    assert message.parameters["found"] == 4304 * 1152 + 1152 * 5376


def test_copy_of_a_tied_head_is_reported():
    architecture = example("Qwen--Qwen2.5-0.5B")
    tensors = [*table(architecture), tensor("lm_head.weight", 151_936, 896)]
    (message,) = compare_with_tensors(architecture, tensors)
    assert message.parameters["what"] == "a copy of the tied head"


def test_a_resized_embedding_differs_outside_the_layers():
    architecture = example("meta-llama--Llama-3.1-8B")
    tensors = [
        tensor(one.name, 128_320, *one.shape[1:]) if one.shape[0] == 128_256 else one for one in table(architecture)
    ]
    (message,) = compare_with_tensors(architecture, tensors)
    assert message.code == "architecture.elements-differ"
    assert message.parameters["part"] == "outside the layers"
    assert message.parameters["found"] - message.parameters["expected"] == 2 * 64 * 4096
    assert "lm_head.weight" in str(message)


def test_layers_that_differ_alike_are_one_message():
    architecture = example("Qwen--Qwen3-8B")
    tensors = table(architecture)
    tensors += [tensor(f"model.layers.{layer}.self_attn.q_proj.bias", 4096) for layer in range(36)]
    (message,) = compare_with_tensors(architecture, tensors)
    assert message.parameters["part"] == "36 layers from 0 to 35"
    assert message.parameters["unexplained"] == "self_attn.q_proj.bias (4096)"
    assert message.parameters["missing"] == "none"


def test_a_layer_too_few_is_reported_with_what_is_missing():
    architecture = example("Qwen--Qwen3-8B")
    tensors = [one for one in table(architecture) if ".layers.35." not in one.name]
    (message,) = compare_with_tensors(architecture, tensors)
    assert message.parameters["part"] == "layer 35"
    assert message.parameters["found"] == 0
    assert "mlp.down_proj.weight" in message.parameters["missing"]


def resized(tensors, part, *shape, dtype="bf16"):
    return [tensor(one.name, *shape, dtype=dtype) if part in one.name else one for one in tensors]


def test_other_shapes_of_the_same_sum_are_reported():
    architecture = example("Qwen--Qwen3-8B")
    tensors = resized(table(architecture), "k_proj", 512, 4096)
    tensors = resized(tensors, "o_proj", 4096, 4096 + 512)
    (message,) = compare_with_tensors(architecture, tensors)
    assert message.code == "architecture.shapes-differ"
    assert message.parameters["part"] == "36 layers from 0 to 35"
    assert "self_attn.k_proj.weight [512, 4096] / [1024, 4096]" in message.parameters["shapes"]


def test_shapes_are_compared_beside_packed_tensors_too():
    architecture = example("Qwen--Qwen3-8B")
    tensors = resized(table(architecture), "down_proj", 512, 4096, dtype="int32")
    codes = [message.code for message in compare_with_tensors(architecture, resized(tensors, "k_norm", 64))]
    assert codes == ["architecture.shapes-differ", "architecture.packed-not-compared"]


def test_a_matrix_kept_the_other_way_round_is_no_difference():
    architecture = example("Qwen--Qwen3-8B")
    assert compare_with_tensors(architecture, resized(table(architecture), "k_proj", 4096, 1024)) == ()


@pytest.mark.parametrize("name", ["Qwen--Qwen3-8B", "deepseek-ai--DeepSeek-V3"])
def test_layers_after_the_last_and_after_the_stated_prediction_layers_are_named(name):
    architecture = example(name)
    beyond = len(architecture.layers) + architecture.prediction_layers
    tensors = [*table(architecture), tensor(f"model.layers.{beyond}.mlp.gate_proj.weight", 8, 8)]
    (message,) = compare_with_tensors(architecture, tensors)
    assert message.code == "architecture.more-layers"
    assert message.parameters["found"] == 64


def test_packed_tensors_are_said_not_to_be_compared():
    architecture = example("openai--gpt-oss-20b")
    tensors = []
    for one in table(architecture):
        if one.name.endswith(("gate_up_proj", "down_proj")):
            tensors.append(tensor(f"{one.name}_blocks", one.shape[0], 10, dtype="uint8"))
            tensors.append(tensor(f"{one.name}_scales", one.shape[0], 5, dtype="uint8"))
        else:
            tensors.append(one)
    (message,) = compare_with_tensors(architecture, tensors)
    assert message.code == "architecture.packed-not-compared"
    assert message.parameters["count"] == 24


def test_an_empty_table_names_every_part():
    architecture = example("Qwen--Qwen2.5-0.5B")
    parts = [message.parameters["part"] for message in compare_with_tensors(architecture, [])]
    assert parts == ["outside the layers", "24 layers from 0 to 23"]
