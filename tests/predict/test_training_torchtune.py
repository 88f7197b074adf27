"""torchtune's passes: its program traced, and sums worked by hand."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from capienza.allocator.events import ALLOC, FREE, MARK
from capienza.allocator.sizes import rounded_bytes
from capienza.architecture.registry import describe
from capienza.predict.training.passes import passes
from capienza.recipe.recipe import Adapters, Checkpointing, Evaluation, Loss, Optimizer, Precision, Recipe

WIDTH, INNER, HEADS, TOKENS, VOCABULARY = 256, 704, 4, 320, 2000
LLAMA = {
    "model_type": "llama", "hidden_size": WIDTH, "intermediate_size": INNER, "num_hidden_layers": 3,
    "num_attention_heads": HEADS, "num_key_value_heads": 2, "vocab_size": VOCABULARY, "tie_word_embeddings": False,
    "max_position_embeddings": 4096,
}  # fmt: skip
TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def recipe(sizes: dict[str, Any], **changes: Any) -> Recipe:
    """LoRA of rank 8 on all layers' matrices, in bf16, or all weights."""
    is_full, is_quantised = sizes.get("is_full", False), sizes.get("is_quantised", False)
    base = Recipe(
        framework="torchtune", framework_version="0.6.1", objective="sft",
        method="full" if is_full else "qlora" if is_quantised else "lora", tokens=TOKENS,
        microbatch=sizes.get("rows", 1), accumulation=1, is_packed=False, has_padding_mask=False, attention="sdpa",
        kernels="torchtune", is_compiled=False,
        precision=Precision(base="bf16", trained="bf16", quantised="nf4_double" if is_quantised else None),
        optimizer=Optimizer(family="adamw", run="fused"),
        checkpointing=Checkpointing(kind="full" if sizes.get("is_checkpointed") else "none"),
        loss=Loss(kind="chunked"), evaluation=Evaluation(microbatch=0),
        adapters=None if is_full else Adapters(rank=8, alpha=16, dropout=0.0, targets=TARGETS, dtype="bf16"),
    )  # fmt: skip
    return msgspec.structs.replace(base, **changes)


def traced(changes: dict[str, Any]) -> int:
    """The most above what is there before the first pass."""
    import torch
    from training_torchtune_program import Model, Sizes, loss_of

    from capienza.trace.peak import predict_peak
    from capienza.trace.run import phase

    sizes = Sizes(**changes)

    def build() -> Any:
        numbers = torch.zeros(sizes.rows, sizes.tokens, dtype=torch.int64, device="cuda")
        return Model(sizes), numbers, numbers.clone()

    def step(state: Any) -> None:
        made, numbers, labels = state
        with phase("passes"):
            logits = made(numbers)
            loss = loss_of(logits, labels)
            del logits
            loss.backward()

    found = predict_peak(build, step, steps=1, device="A100 SXM").traced.recording
    level, before, most, alive = 0, 0, 0, {}
    for code, block, size, _ in found.events[0]:
        if code == MARK:
            before = level if found.phases[block] == "passes" else before
        elif code == ALLOC:
            alive[block] = rounded_bytes(size)
            level += alive[block]
            most = max(most, level)
        elif code == FREE:
            level -= alive.pop(block)
    return most - before


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"rows": 2, "groups": 4},
        {"is_checkpointed": True},
        {"is_full": True},
        {"is_full": True, "is_checkpointed": True},
        {"is_quantised": True},
        {"is_quantised": True, "is_checkpointed": True, "vocabulary": 200},
    ],
    ids=lambda changes: "-".join(changes) or "lora",
)
def test_the_passes_are_those_of_its_program(changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":0:0")
    groups, vocabulary = changes.get("groups", 2), changes.get("vocabulary", VOCABULARY)
    found = passes(describe(LLAMA | {"num_key_value_heads": groups, "vocab_size": vocabulary}), recipe(changes))
    highest = max(found.forward.total_bytes, found.backward.total_bytes)
    assert highest == pytest.approx(traced(changes), rel=1e-3)


def test_all_logits_are_there_until_the_last_piece_s_loss() -> None:
    """bf16 of all 2 V, the probabilities' logarithms of all 4 V, and a piece in fp32 4 V / 8."""
    few, many = (
        passes(describe(LLAMA | {"vocab_size": size}), recipe({"is_checkpointed": True})).forward.total_bytes
        for size in (8000, 16000)
    )
    assert many - few == pytest.approx(TOKENS * 8000 * (2 + 4 + 0.5), rel=1e-3)


def test_torchao_unpacks_through_indices() -> None:
    """8 bytes of index, 2 of what it names and 2 of that scaled, for each of the elements, and 2 of the result."""
    packed = recipe({"is_quantised": True, "is_checkpointed": True}, tokens=1)
    plain = msgspec.structs.replace(packed, kernels="transformers", framework="transformers")
    wide = describe(LLAMA | {"intermediate_size": 8192})
    first, second = (passes(wide, one).backward.total_bytes for one in (packed, plain))
    assert first - second == pytest.approx(12 * WIDTH * 8192, rel=0.02)


def test_what_is_taken_as_transformers_is_told() -> None:
    told = passes(describe(LLAMA | {"model_type": "qwen2"}), recipe({})).assumed
    assert any("torchtune" in str(one) for one in told)
    assert not any("torchtune" in str(one) for one in passes(describe(LLAMA), recipe({})).assumed)
