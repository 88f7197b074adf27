"""Tensor by tensor against transformers: names, shapes and counts of models built without memory."""

from __future__ import annotations

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
