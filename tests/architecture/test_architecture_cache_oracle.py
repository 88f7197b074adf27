"""Layer kinds and cache widths against the cache object that transformers fills in a real forward pass."""

from __future__ import annotations

import pytest
from random_configs import GENERATORS, random_config
from test_architecture_oracle import configure

from capienza.architecture.registry import describe

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")

pytestmark = pytest.mark.oracle

TOKENS = 16
KINDS = {"full_attention": "full", "sliding_attention": "sliding", "chunked_attention": "chunked"}


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("model_type", GENERATORS)
def test_layer_kinds_and_windows_equal_those_of_the_cache(model_type, seed):
    from transformers.cache_utils import get_layer_types_and_kwargs

    config = random_config(model_type, seed)
    types, arguments = get_layer_types_and_kwargs(configure(config))
    theirs = [(KINDS[kind], given.get("sliding_window")) for kind, given in zip(types, arguments, strict=True)]
    ours = [
        ("full" if layer.attention.kind == "latent" else layer.attention.kind, layer.attention.window)
        for layer in describe(config).layers
    ]
    assert ours == theirs


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("model_type", GENERATORS)
def test_cache_of_a_forward_pass_has_the_described_size(model_type, seed):
    config = random_config(model_type, seed)
    if "head_dim" in config:
        config["head_dim"] = 4  # partly rotated heads need more than two elements
    config.pop("qk_layernorm", None)
    architecture = describe(config)
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(configure(config), experts_implementation="eager").eval()
    with torch.no_grad():
        output = model(torch.arange(TOKENS)[None] % 40, use_cache=True)
    cache = output.cache if hasattr(output, "cache") else output.past_key_values
    repeated = 1
    if any(note.code == "architecture.falcon-repeated-cache" for note in architecture.notes):
        repeated = config["num_attention_heads"] // config["num_kv_heads"]
    for layer, kept in zip(architecture.layers, cache.layers, strict=True):
        attention = layer.attention
        # Between steps a window of n needs its last n - 1 tokens; the n-th is the next token itself.
        tokens = TOKENS if attention.window is None else min(TOKENS, attention.window - 1)
        assert kept.keys.shape[-2] == tokens
        assert kept.keys.numel() + kept.values.numel() == repeated * tokens * attention.cache_width
        if attention.kind != "latent":
            assert kept.keys.shape[1] == repeated * attention.num_key_value_heads
            assert kept.keys.shape[-1] == attention.key_head_dim
            assert kept.values.shape[-1] == attention.value_head_dim
