"""Models with a recurrent state, tensor by tensor and state by state against transformers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hybrid_configs import GENERATORS, hybrid_config
from test_architecture_oracle import build_without_memory, configure, named_shapes

from capienza.architecture.registry import describe

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")

pytestmark = pytest.mark.oracle

EXAMPLES = Path(__file__).parents[2] / "examples" / "configs"
TOKENS = 9


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("model_type", GENERATORS)
def test_parameters_equal_those_of_transformers(model_type, seed):
    config = hybrid_config(model_type, seed)
    model = build_without_memory(config)
    architecture = describe(config)
    ours = {parameter.name: parameter.shape for parameter in architecture.parameters}
    assert len(ours) == len(architecture.parameters), "a name occurs twice"
    assert ours == named_shapes(model)
    saved = {name for name, _ in model.named_buffers()} & model.state_dict().keys()
    buffers = {buffer.name: buffer.shape for buffer in architecture.buffers}
    assert buffers == {name: tuple(model.get_buffer(name).shape) for name in saved}


def attending_config(model_type, seed):
    """The next config with an attention layer: transformers cannot run a hybrid that has none."""
    while True:
        config = hybrid_config(model_type, seed)
        if model_type in ("mamba", "mamba2") or any(layer.attention for layer in describe(config).layers):
            return config
        seed += 100


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("model_type", GENERATORS)
def test_state_and_cache_equal_those_after_a_decode_step(model_type, seed):
    config = attending_config(model_type, seed)
    architecture = describe(config)
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(
        configure(config), dtype=torch.bfloat16, experts_implementation="eager"
    ).eval()
    with torch.no_grad():
        output = model(torch.arange(TOKENS - 1)[None] % 40, use_cache=True)
        cache = output.cache if hasattr(output, "cache") else output.past_key_values
        model(torch.tensor([[7]]), cache=cache, use_cache=True)
    for layer, kept in zip(architecture.layers, cache.layers, strict=True):
        assert (getattr(kept, "keys", None) is not None) is (layer.attention is not None)
        if layer.attention:
            assert kept.keys.numel() + kept.values.numel() == TOKENS * layer.attention.cache_width
        parts = {part.name: part for part in layer.state.parts} if layer.state else {}
        held = {
            name: state
            for name, states in (("conv", "conv_states"), ("recurrent", "recurrent_states"))
            if (state := (getattr(kept, states, None) or {}).get(0)) is not None
        }
        assert held.keys() == parts.keys()
        if "conv" in parts:
            columns, channels = parts["conv"].shape
            assert tuple(held["conv"].shape) == (1, channels, columns + 1)  # transformers keeps one column more
            assert held["conv"].dtype is torch.bfloat16
            assert parts["conv"].dtype is None
        if "recurrent" in parts:
            assert tuple(held["recurrent"].shape) == (1, *parts["recurrent"].shape)
            assert held["recurrent"].dtype is torch.float32
            assert parts["recurrent"].dtype == "fp32"


def test_qwen3_next_80b_tensor_by_tensor():
    config = json.loads((EXAMPLES / "Qwen--Qwen3-Next-80B-A3B-Instruct" / "config.json").read_text())
    theirs = named_shapes(build_without_memory(config))
    assert {parameter.name: parameter.shape for parameter in describe(config).parameters} == theirs
