"""The closed form of a training's passes beside the trace of the same program by transformers, to the byte or nearly.

The trace is exact against PyTorch; of both, forward and backward are what is above the level at which the last forward
pass begins. A small model has scratch that a large one has not: the tolerance is of small models.
"""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")

from capienza.allocator.events import ALLOC, MARK
from capienza.allocator.settings import Settings
from capienza.allocator.sizes import rounded_bytes
from capienza.architecture.registry import describe
from capienza.predict.training.passes import passes
from capienza.recipe.recipe import Adapters, Checkpointing, Evaluation, Loss, Optimizer, Precision, Recipe
from capienza.trace.cards.recipe import Recipe as Program
from capienza.trace.cards.trace import trace_recipe

pytestmark = pytest.mark.oracle
TOKENS = 1024
MOST = 0.005
LLAMA = {
    "model_type": "llama", "hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 3,
    "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 4096, "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
}  # fmt: skip
GPT = {"vocab_size": 4096, "n_embd": 512, "n_layer": 3, "n_head": 8, "n_positions": 4096,
       "resid_pdrop": 0.0, "attn_pdrop": 0.0, "embd_pdrop": 0.0}  # fmt: skip
PADS = {"pad_token_id": 0, "eos_token_id": 1}
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {}, "mistral": {"sliding_window": None}, "qwen2": {}, "qwen3": {"head_dim": 64}, "phi3": PADS,
    "phi": {"num_key_value_heads": 8}, "gemma": {"head_dim": 64},
    "gemma3_text": {"head_dim": 64, "sliding_window": 512},
    "starcoder2": {"sliding_window": None}, "stablelm": {}, "gpt_neox": {}, "olmo": PADS, "olmo2": PADS, "cohere": PADS,
    "granite": {}, "glm4": {"head_dim": 64} | PADS, "ernie4_5": {}, "exaone4": {"sliding_window": 4096},
    "nemotron": {}, "helium": {"head_dim": 64}, "seed_oss": {}, "arcee": {}, "smollm3": PADS,
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
}  # fmt: skip
METHODS: dict[str, dict[str, Any]] = {
    "full": {}, "full-checkpointed": {"checkpointed": True},
    "fp32": {"dtype": "float32", "autocast": "bfloat16"},
    "lora": {"method": "lora", "autocast": "bfloat16"},
    "lora-checkpointed": {"method": "lora", "autocast": "bfloat16", "checkpointed": True},
    "qlora": {"method": "qlora", "autocast": "bfloat16"},
    "qlora-checkpointed": {"method": "qlora", "autocast": "bfloat16", "checkpointed": True},
    "qlora-norms": {"method": "qlora", "autocast": "bfloat16", "widens": "norms"},
    "lora-reentrant": {"method": "lora", "autocast": "bfloat16", "checkpointed": True, "reentrant": True},
    "lora-outputs": {"method": "lora", "autocast": "bfloat16", "checkpointed": True, "outputs": True},
    "lora-bf16": {"method": "lora", "adapters": "bf16"},
    "lora-fp32": {"method": "lora"},
    "eager": {"attention": "eager"},
    "dropout": {"method": "lora", "autocast": "bfloat16", "dropout": 0.05},
    "dora": {"method": "lora", "autocast": "bfloat16", "dora": True},
    "dora-fp32": {"method": "lora", "dora": True},
    "dora-dropout": {"method": "lora", "autocast": "bfloat16", "dropout": 0.05, "dora": True},
    "dora-checkpointed": {"method": "lora", "autocast": "bfloat16", "checkpointed": True, "dora": True},
    "qdora-checkpointed": {"method": "qlora", "autocast": "bfloat16", "checkpointed": True, "dora": True},
}  # fmt: skip


def traced(config: dict[str, Any], asked: dict[str, Any]) -> tuple[int, int]:
    """Forward and backward of the second update above where its forward pass begins."""
    method = asked.get("method", "full")
    program = Program(
        task="training", config=config, dtype=asked.get("dtype", "bfloat16"), attention=asked.get("attention", "sdpa"),
        tokens=TOKENS, sequences=1, method=method, four_bit=("nf4", True) if method == "qlora" else None,
        rank=16, alpha=16, dropout=asked.get("dropout", 0.0), targets=None if method == "full" else "all-linear",
        autocast=asked.get("autocast"), gradient_checkpointing=asked.get("checkpointed", False), eval_sequences=1,
        widens=asked.get("widens", "rest") if method == "qlora" else "none",
        adapter_dtype="bfloat16" if "adapters" in asked else "float32",
        is_reentrant=asked.get("reentrant", False), widens_outputs=asked.get("outputs", False),
        is_dora="dora" in asked,
    )  # fmt: skip
    return highest_of(trace_recipe(program, "A100", steps=2, settings=Settings()).prediction.traced.recording)


def highest_of(found: Any) -> tuple[int, int]:
    """The most of the last forward and backward pass of a recording, above where the forward pass begins."""
    level, base, phase, sizes = 0, 0, "", {}
    most = {"forward": 0, "backward": 0}
    for code, block, size, _ in found.events[0]:
        if code == MARK:
            phase = found.phases[block]
            if phase == "forward":
                base, most = level, {"forward": 0, "backward": 0}
        elif code == ALLOC:
            sizes[block] = rounded_bytes(size) if size else 0
            level += sizes[block]
        else:
            level -= sizes.pop(block, 0)
        if phase in most:
            most[phase] = max(most[phase], level - base)
    return most["forward"], most["backward"]


def walked(config: dict[str, Any], asked: dict[str, Any]) -> tuple[int, int]:
    """The same by the closed form."""
    method = asked.get("method", "full")
    names: dict[str, Any] = {"bfloat16": "bf16", "float32": "fp32"}
    autocast = names.get(asked.get("autocast", ""))
    dtype = names[asked.get("dtype", "bfloat16")]
    recipe = Recipe(
        framework="transformers", framework_version=None, objective="sft", method=method, tokens=TOKENS, microbatch=1,
        accumulation=1, is_packed=True, has_padding_mask=False, attention=asked.get("attention", "sdpa"),
        kernels="transformers", is_compiled=False,
        precision=Precision(
            base=dtype, trained=dtype if method == "full" else "fp32", autocast=autocast,
            quantised="nf4_double" if method == "qlora" else None,
            widens_rest=method == "qlora" and "widens" not in asked, widens_norms="widens" in asked,
            widens_outputs=asked.get("outputs", False),
        ),
        optimizer=Optimizer(family="adamw", run="fused"),
        checkpointing=Checkpointing(
            kind="full" if asked.get("checkpointed") else "none", is_reentrant=asked.get("reentrant", False)
        ),
        loss=Loss(kind="full"), evaluation=Evaluation(microbatch=0),
        adapters=None if method == "full" else Adapters(
            rank=16, alpha=16, dropout=asked.get("dropout", 0.0), targets=("all-linear",),
            dtype=asked.get("adapters", "fp32"), is_dora="dora" in asked,
        ),
    )  # fmt: skip
    found = passes(describe(config), recipe, config)
    return found.forward.total_bytes, found.backward.total_bytes


def compare(family: str, method: str) -> None:
    config = LLAMA | {"model_type": family} | FAMILIES[family]
    for found, expected in zip(walked(config, METHODS[method]), traced(dict(config), METHODS[method]), strict=True):
        assert found == pytest.approx(expected, rel=MOST)


@pytest.mark.parametrize("method", ["full", "qlora-checkpointed", "dora"])
def test_a_llama_is_walked_as_it_is_traced(method: str) -> None:
    compare("llama", method)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_every_method_of_a_llama(method: str) -> None:
    compare("llama", method)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["full", "full-checkpointed", "lora-checkpointed", "qlora"])
@pytest.mark.parametrize("family", sorted(set(FAMILIES) - {"llama", "mixtral"}))
def test_every_family(family: str, method: str) -> None:
    compare(family, method)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "changes", "asked"),
    [
        ("llama", {}, {"dtype": "float32"}),
        ("llama", {}, {"dtype": "float32", "checkpointed": True}),
        ("gemma", {"head_dim": 512, "num_attention_heads": 4}, {}),
    ],
)
def test_attention_that_no_flash_kernel_takes(family: str, changes: dict[str, Any], asked: dict[str, Any]) -> None:
    """Grouped heads in fp32 are multiplied out; heads above 256 are repeated for the efficient kernel."""
    config = LLAMA | {"model_type": family} | changes
    for found, expected in zip(walked(config, asked), traced(dict(config), asked), strict=True):
        assert found == pytest.approx(expected, rel=0.012)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["full", "full-checkpointed"])
def test_experts(method: str) -> None:
    compare("mixtral", method)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["full", "full-checkpointed"])
def test_gpt2(method: str) -> None:
    config = GPT | {"model_type": "gpt2"}
    assert walked(config, METHODS[method]) == pytest.approx(traced(dict(config), METHODS[method]), rel=MOST)
