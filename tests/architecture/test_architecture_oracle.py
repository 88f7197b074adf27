"""Tensor by tensor against transformers: names, shapes and counts of models built without memory."""

from __future__ import annotations

import json

import pytest
from random_configs import GENERATORS, random_config

from capienza.architecture.registry import describe

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")

pytestmark = pytest.mark.oracle


def named_shapes(model) -> dict[str, tuple[int, ...]]:
    return {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}


def configure(config):
    """The config object of transformers for a config.json."""
    tokens = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}  # the defaults lie outside a tiny vocabulary
    values = {key: value for key, value in config.items() if key != "model_type"} | tokens
    return transformers.AutoConfig.for_model(config["model_type"], **values)


def build_without_memory(config):
    with torch.device("meta"):
        return transformers.AutoModelForCausalLM.from_config(configure(config))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("model_type", GENERATORS)
def test_parameters_equal_those_of_transformers(model_type, seed):
    config = random_config(model_type, seed)
    model = build_without_memory(config)
    theirs = named_shapes(model)
    architecture = describe(config)
    ours = {parameter.name: parameter.shape for parameter in architecture.parameters}
    assert len(ours) == len(architecture.parameters), "a name occurs twice"
    assert ours == theirs
    assert architecture.num_parameters == sum(torch.Size(shape).numel() for shape in theirs.values())
    tied = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    stored = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items() if name not in tied}
    assert {buffer.name: buffer.shape for buffer in architecture.buffers} == stored


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("model_type", GENERATORS)
def test_a_config_written_by_transformers_describes_the_same_model(model_type, seed):
    """All defaults written out, nulls and derived keys included."""
    config = random_config(model_type, seed)
    written = json.loads(configure(config).to_json_string(use_diff=False))
    ours, theirs = describe(config), describe(written)
    assert theirs.parameters == ours.parameters
    assert theirs.layers == ours.layers
    assert theirs.max_position_embeddings == ours.max_position_embeddings


@pytest.mark.slow
@pytest.mark.parametrize("model_type", GENERATORS)
def test_many_parameters_equal_those_of_transformers(model_type):
    for seed in range(100, 180):
        config = random_config(model_type, seed)
        ours = {parameter.name: parameter.shape for parameter in describe(config).parameters}
        assert ours == named_shapes(build_without_memory(config)), config


EXPERTS = {"num_local_experts": 3, "num_experts_per_tok": 1, "intermediate_size": 10, "num_key_value_heads": 2}


@pytest.mark.parametrize(
    "model_type, more, expected",
    [
        ("gpt_oss", EXPERTS, {(3, 24, 20), (3, 10, 24)}),
        ("llama4_text", {**EXPERTS, "intermediate_size_mlp": 5}, {(3, 24, 20), (3, 10, 24)}),
        ("gpt2", {}, {(24, 72), (24, 24), (24, 96), (96, 24)}),
        ("mixtral", EXPERTS, set()),
    ],
)
def test_transposed_parameters_are_stored_in_out(model_type, more, expected):
    """transformers multiplies by these as they are, x @ w, where a linear module multiplies by the transpose."""
    config = {"hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 50}
    parameters = describe({"model_type": model_type, **config, **more}).parameters
    assert {parameter.shape for parameter in parameters if parameter.transposed} == expected
