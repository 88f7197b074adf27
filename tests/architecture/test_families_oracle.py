"""Every family of `small_configs/`: tensors against transformers' modules, cache against its real cache objects."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from pathlib import Path
from random import Random

import pytest
from test_architecture_oracle import build_without_memory, configure, named_shapes

from capienza.architecture.registry import describe
from capienza.predict.cache import TRANSFORMERS_RULE, cache_need

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")

pytestmark = pytest.mark.oracle

TOKENS = 12
CACHE_NAMES = ("cache", "past_key_values", "cache_params", "past_buckets_states", "state", "mems")
GIVEN_ALL_TOKENS = {"cpmant", "xlm"}
"""Their forward takes the whole sequence at each step, and leaves out what the cache holds."""
RUN_IN_FP32 = {"reformer", "xlnet"}
"""Their own code makes fp32 tensors whatever the model's type, and fails in another."""
MODULE_STATES = ("conv1d_state", "recurrent_states")
"""RecurrentGemma keeps them outside its cache object."""
DRAFT_MODELS = ("gemma4_assistant", "gemma4_unified_assistant")
"""They read the cache of the model that they draft for, and cannot run without it."""
WITHOUT_CACHE_OF_THEIR_OWN = (*DRAFT_MODELS, "blt")
GENERATORS = {
    model_type: generator
    for found in pkgutil.iter_modules([str(Path(__file__).parent / "small_configs")])
    for model_type, generator in importlib.import_module(f"small_configs.{found.name}").GENERATORS.items()
}


def small_config(model_type, seed):
    """One config of a type; equal arguments give equal configs."""
    return {"model_type": model_type, **GENERATORS[model_type](Random(f"{model_type} {seed}"))}


def given_cache(output):
    """The cache object of an output, None when it has none."""
    return next((held for name in CACHE_NAMES if (held := getattr(output, name, None)) is not None), None)


def cache_after_prefill_and_decode(model, model_type):
    """The cache object, with the way its model is run: most take one token and the cache of those before it."""
    tokens = torch.arange(TOKENS)[None] % 40
    taken = inspect.signature(model.forward).parameters
    name = next((name for name in CACHE_NAMES if name in taken), None)
    cache = given_cache(model(tokens[:, :-1], use_cache=True))
    if cache is None and name == "cache":
        # A forward pass of these returns none, but fills the one that `generate` hands it.
        cache = transformers.DynamicCache(config=model.config)
        model(tokens[:, :-1], **{name: cache}, use_cache=True)
    if cache is None:
        return None
    last = tokens if model_type in GIVEN_ALL_TOKENS else tokens[:, -1:]
    return given_cache(model(last, **{name: cache}, use_cache=True)) or cache


def held_bytes(cache) -> int:
    """Bytes of every floating tensor that a cache object holds, each storage once."""
    seen: dict[int, int] = {}
    visited: set[int] = set()
    waiting = [cache]
    while waiting:
        value = waiting.pop()
        if id(value) in visited:
            continue
        visited.add(id(value))
        if isinstance(value, torch.Tensor):
            if value.is_floating_point() and value.numel():
                seen[value.data_ptr()] = value.numel() * value.element_size()
        elif isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, list | tuple):
            waiting.extend(value)
        elif hasattr(value, "__dict__") and not isinstance(value, type | transformers.PreTrainedConfig):
            waiting.extend(vars(value).values())
    return sum(seen.values())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("model_type", GENERATORS)
def test_parameters_equal_those_of_transformers(model_type, seed):
    config = small_config(model_type, seed)
    model = build_without_memory(config)
    architecture = describe(config)
    ours = {parameter.name: parameter.shape for parameter in architecture.parameters}
    assert len(ours) == len(architecture.parameters), "a name occurs twice"
    assert ours == named_shapes(model)
    tied = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    stored = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items() if name not in tied}
    assert {buffer.name: buffer.shape for buffer in architecture.buffers} == stored


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("model_type", [name for name in GENERATORS if name not in WITHOUT_CACHE_OF_THEIR_OWN])
def test_cache_holds_what_is_described_after_prefill_and_decode(model_type, seed):
    config = small_config(model_type, seed)
    torch.manual_seed(0)
    dtype, name = (torch.float32, "fp32") if model_type in RUN_IN_FP32 else (torch.bfloat16, "bf16")
    model = transformers.AutoModelForCausalLM.from_config(configure(config), dtype=dtype).eval()
    if hasattr(model.config, "_experts_implementation"):
        model.config._experts_implementation = "eager"
    with torch.no_grad():
        cache = cache_after_prefill_and_decode(model, model_type)
    states = [getattr(module, kept, None) for module in model.modules() for kept in MODULE_STATES]
    need = cache_need(describe(config), TOKENS, name, name, TRANSFORMERS_RULE)
    assert need.windowed_bytes + need.state_bytes == held_bytes([cache, states])


@pytest.mark.parametrize("model_type", DRAFT_MODELS)
def test_draft_models_keep_no_cache_and_cannot_run_alone(model_type):
    config = small_config(model_type, 0)
    architecture = describe(config)
    need = cache_need(architecture, TOKENS, "bf16", "bf16", TRANSFORMERS_RULE)
    assert need.windowed_bytes == need.state_bytes == 0
    assert architecture.notes[0].code == "architecture.draft-model"
    model = transformers.AutoModelForCausalLM.from_config(configure(config))
    with pytest.raises(ValueError, match="shared_kv_states"):
        model(torch.arange(TOKENS)[None])


@pytest.mark.parametrize("seed", range(4))
def test_a_byte_model_fills_the_caches_it_is_given_for_its_encoder_and_decoder(seed):
    """transformers 5.24 cannot make them from its config by itself."""
    config = small_config("blt", seed)
    model = transformers.AutoModelForCausalLM.from_config(configure(config), dtype=torch.bfloat16).eval()
    cache = transformers.EncoderDecoderCache(transformers.DynamicCache(), transformers.DynamicCache())
    with torch.no_grad():
        cache = model(torch.arange(TOKENS - 1)[None] % 40, cache=cache, use_cache=True).cache
        cache = model(torch.tensor([[7]]), cache=cache, use_cache=True).cache
    need = cache_need(describe(config), TOKENS, "bf16", "bf16", TRANSFORMERS_RULE)
    assert need.windowed_bytes == held_bytes(cache)
