"""What the closed form says the allocator keeps, beside the trace of the same program: load, passes and step.

Both run their events through the same simulator; what differs is the order of small tensors, which a small model feels.
"""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")

from capienza.allocator.settings import Settings
from capienza.architecture.registry import describe
from capienza.predict.training.reserved import reserved_bytes
from capienza.predict.training.resident import resident_of
from capienza.recipe.recipe import Adapters, Checkpointing, Evaluation, Loss, Optimizer, Precision, Recipe
from capienza.trace.cards.recipe import Recipe as Program
from capienza.trace.cards.trace import trace_recipe

pytestmark = pytest.mark.oracle
TOKENS = 1024
LLAMA: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 4,
    "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 32000, "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
}  # fmt: skip


def traced(method: str, *, checkpointed: bool) -> int:
    program = Program(
        task="training", config=LLAMA, dtype="bfloat16", attention="sdpa", tokens=TOKENS, sequences=1, method=method,
        four_bit=("nf4", True) if method == "qlora" else None, rank=16, alpha=16, dropout=0.0,
        targets=None if method == "full" else "all-linear", autocast=None if method == "full" else "bfloat16",
        gradient_checkpointing=checkpointed, eval_sequences=1, widens="rest" if method == "qlora" else "none",
    )  # fmt: skip
    return trace_recipe(program, "A100", steps=2, settings=Settings()).prediction.reserved_bytes


def replayed(method: Any, *, checkpointed: bool) -> int:
    is_full, is_packed = method == "full", method == "qlora"
    recipe = Recipe(
        framework="transformers", framework_version="5.24", objective="sft", method=method, tokens=TOKENS, microbatch=1,
        accumulation=1, is_packed=True, has_padding_mask=False, attention="sdpa", kernels="transformers",
        is_compiled=False, libraries=(("transformers", "5.24"), ("bitsandbytes", "0.50")),
        precision=Precision(
            base="bf16", trained="bf16" if is_full else "fp32", autocast=None if is_full else "bf16",
            quantised="nf4_double" if is_packed else None, widens_rest=is_packed,
        ),
        optimizer=Optimizer(family="adamw", run="fused"),
        checkpointing=Checkpointing(kind="full" if checkpointed else "none"), loss=Loss(kind="full"),
        evaluation=Evaluation(microbatch=0),
        adapters=None if is_full else Adapters(
            rank=16, alpha=16, dropout=0.0, targets=("all-linear",), dtype="fp32"
        ),
    )  # fmt: skip
    architecture = describe(LLAMA)
    return max(reserved_bytes(architecture, recipe, resident_of(architecture, recipe), None, LLAMA).values())


@pytest.mark.parametrize("method", ["full", "lora", "qlora"])
@pytest.mark.parametrize("checkpointed", [False, True])
def test_what_is_kept_is_what_the_program_makes_the_allocator_keep(method: str, checkpointed: bool) -> None:
    found, kept = traced(method, checkpointed=checkpointed), replayed(method, checkpointed=checkpointed)
    assert kept == pytest.approx(found, rel=0.05)
