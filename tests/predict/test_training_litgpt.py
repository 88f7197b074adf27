"""LitGPT's passes: its program traced, sums worked by hand, and runs that were measured."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import msgspec
import pytest

from capienza.allocator.events import ALLOC, FREE, MARK
from capienza.allocator.sizes import rounded_bytes
from capienza.architecture.registry import describe
from capienza.errors import InputError
from capienza.predict.training.base import base_of
from capienza.predict.training.passes import passes
from capienza.predict.training.releases import bitsandbytes_release, litgpt_release
from capienza.predict.training.resident import resident_of
from capienza.recipe.recipe import Adapters, Checkpointing, Evaluation, Loss, Optimizer, Precision, Recipe
from capienza.validate.training_rows import training_row

WIDTH, INNER, HEADS, TOKENS, VOCABULARY = 256, 704, 4, 300, 2000
LLAMA = {
    "model_type": "llama", "hidden_size": WIDTH, "intermediate_size": INNER, "num_hidden_layers": 3,
    "num_attention_heads": HEADS, "num_key_value_heads": 2, "vocab_size": VOCABULARY, "tie_word_embeddings": False,
    "max_position_embeddings": 4096,
}  # fmt: skip


def recipe(*, is_quantised: bool = False, **changes: Any) -> Recipe:
    """LoRA of rank 8 on queries and values, in bf16-true."""
    base = Recipe(
        framework="litgpt", framework_version="0.4.13", objective="sft", method="qlora" if is_quantised else "lora",
        tokens=TOKENS, microbatch=1, accumulation=1, is_packed=True, has_padding_mask=False, attention="sdpa",
        kernels="litgpt", is_compiled=False,
        precision=Precision(base="bf16", trained="bf16", quantised="nf4" if is_quantised else None),
        optimizer=Optimizer(family="adamw", run="fused"), checkpointing=Checkpointing(kind="none"),
        loss=Loss(kind="chunked", widens=False, chunk_tokens=128), evaluation=Evaluation(microbatch=0),
        adapters=Adapters(rank=8, alpha=16, dropout=0.05, targets=("q_proj", "v_proj"), dtype="bf16"),
    )  # fmt: skip
    return msgspec.structs.replace(base, **changes)


def model(**changes: Any) -> Any:
    return describe(LLAMA | changes)


def highest(architecture: Any, asked: Recipe) -> int:
    found = passes(architecture, asked)
    return max(found.forward.total_bytes, found.backward.total_bytes)


def traced(sizes: Any, microbatches: int = 1) -> int:
    """The most above what is there before the first pass; the loop's names hold logits and loss."""
    import torch
    from training_litgpt_program import Model, loss_of

    from capienza.trace.peak import predict_peak
    from capienza.trace.run import phase

    def build() -> Any:
        numbers = [torch.zeros(sizes.rows, sizes.tokens, dtype=torch.int64, device="cuda") for _ in range(2)]
        return {"model": Model(sizes), "numbers": numbers}

    def step(state: Any) -> None:
        with phase("passes"):
            for _ in range(microbatches):
                made = state["model"](state["numbers"][0])
                if sizes.is_full:
                    state["logits"] = made = made.float()
                    made = made[..., :-1, :]
                else:
                    state["logits"] = made = [one.float() for one in made]
                    made[-1] = made[-1][..., :-1, :]
                state["loss"] = loss_of(made, state["numbers"][1][..., 1:])
                del made
                (state["loss"] / 8).backward()

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
    ("groups", "rows", "is_quantised"), [(4, 1, False), (4, 2, True), (2, 2, False), (2, 1, True), (1, 2, True)]
)
def test_the_passes_are_those_of_its_program(
    groups: int, rows: int, is_quantised: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    from training_litgpt_program import Sizes

    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":0:0")
    sizes = Sizes(groups=groups, rows=rows, is_quantised=is_quantised)
    asked = recipe(is_quantised=is_quantised, microbatch=rows)
    assert highest(model(num_key_value_heads=groups), asked) == pytest.approx(traced(sizes), rel=1e-3)


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("is_quantised", [False, True])
def test_so_are_those_of_a_parallel_block_and_of_two_microbatches(
    is_quantised: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    from training_litgpt_program import Sizes

    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":0:0")
    asked = recipe(is_quantised=is_quantised)
    sizes = Sizes(groups=4, is_quantised=is_quantised, is_parallel=True, share=0.25)
    targets = Adapters(rank=8, alpha=16, dropout=0.05, targets=("query_key_value",), dtype="bf16")
    neox = model(model_type="gpt_neox", num_key_value_heads=4)
    assert highest(neox, msgspec.structs.replace(asked, adapters=targets)) == pytest.approx(traced(sizes), rel=2e-3)
    two = highest(model(), msgspec.structs.replace(asked, accumulation=2))
    assert two == pytest.approx(traced(Sizes(is_quantised=is_quantised), microbatches=2), rel=4e-3)


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("rows", [1, 2])
def test_so_are_those_of_a_training_of_all_weights(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    from training_litgpt_program import Sizes

    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":0:0")
    asked = recipe(method="full", adapters=None, microbatch=rows)
    assert highest(model(), asked) == pytest.approx(traced(Sizes(rows=rows, is_full=True)), rel=1e-3)


def test_a_layer_keeps_what_a_table_says() -> None:
    """Bytes a token of one layer more, h width, I inner size, worked out by hand.

    Two norms' rows in fp32 8 h, with a number each 8; dropped rows 2 h and mask h; 16 low results 32; the update of
    query and value 4 h; query, key and value 6 h, turned query and key 4 h; the result 2 h and a number a head; gate,
    activated gate and up 6 I. Rows of the stream are not kept: their copies are.
    """
    few, many = (passes(model(num_key_value_heads=4, num_hidden_layers=n), recipe()).forward for n in (4, 14))
    token = 27 * WIDTH + 6 * INNER + 8 + 32 + 4 * HEADS
    assert (many.total_bytes - few.total_bytes) / 10 == pytest.approx(TOKENS * token, rel=2e-3)


def test_a_quantised_product_holds_its_rows_until_release_0_43_2() -> None:
    """Rows that nothing else keeps: two normed 4 h, the attention's result row by row 2 h, the product 2 I.

    The first layer's first product has an input that wants no gradient.
    """
    held, freed = (
        passes(model(num_hidden_layers=14), recipe(is_quantised=True, libraries=(("bitsandbytes", at),))).forward
        for at in ("0.43.1", "0.43.2")
    )
    rows = TOKENS * (6 * WIDTH + 2 * INNER)
    assert held.total_bytes - freed.total_bytes == pytest.approx(14 * rows - TOKENS * 2 * WIDTH, rel=1e-6)


def test_they_outlive_their_microbatch_where_the_next_one_is_as_long() -> None:
    asked = recipe(is_quantised=True)
    one, two = (highest(model(), msgspec.structs.replace(asked, accumulation=n)) for n in (1, 2))
    assert two > 1.08 * one
    old = msgspec.structs.replace(asked, is_packed=False, framework_version="lit-gpt commit 0 (2023-10-16)")
    assert highest(model(), msgspec.structs.replace(old, accumulation=2)) == highest(model(), old)


def test_a_head_of_its_own_is_quantised_too() -> None:
    tied = model(tie_word_embeddings=True)
    plain, packed = base_of(tied, recipe()), base_of(tied, recipe(is_quantised=True))
    elements = VOCABULARY * WIDTH
    assert plain.untied_head_bytes == 2 * elements
    assert packed.untied_head_bytes == rounded_bytes(elements // 2) + rounded_bytes(4 * elements // 64) + 512
    assert sum(one.count for one in resident_of(tied, recipe(method="full", adapters=None)).trained) == 3 * 9 + 3


@pytest.mark.parametrize(
    ("said", "libraries", "found", "wanted"),
    [
        ("0.4.13", (), (0, 4, 13), (0, 42)),
        ("litgpt 0.4-era (2024)", (), (0, 4), (0, 42)),
        ("lit-gpt commit 8641822 (2023-10-16)", (), (0, 0, 202310), (0, 42)),
        ("lit-gpt Aug 2023", (), (0, 0, 202308), (0, 42)),
        ("Lit-GPT", (), (0, 0), (0, 42)),
        ("0.5.7", (), (0, 5, 7), (9999,)),
        (None, (("bitsandbytes", "0.41.1"),), (9999,), (0, 41, 1)),
    ],
)
def test_releases_are_read_as_people_write_them(said: str | None, libraries: Any, found: Any, wanted: Any) -> None:
    asked = recipe(framework_version=said, libraries=libraries)
    assert litgpt_release(asked) == found
    assert bitsandbytes_release(asked) == wanted


def test_what_is_not_covered_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="q_norm"):
        passes(model(model_type="qwen3", head_dim=64), recipe())
    with pytest.raises(InputError, match="experts"):
        passes(model(model_type="mixtral", num_local_experts=4, num_experts_per_tok=2), recipe())


def test_measured_runs_of_one_gpu(shared: Path) -> None:
    """Thirty runs of three releases, with and without bitsandbytes' formats: no number comes from them."""
    errors = []
    for line in (shared / "cases" / "training.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row["id"].startswith("litgpt") and row["num_gpus"] == 1 and row["tier"] in ("gold", "silver"):
            found = [one for one in training_row(row) if "allocated_peak" in one.kind and one.status == "scored"]
            errors += [abs(float(one.expected) / float(one.measured) - 1) for one in found]
    errors.sort()
    assert len(errors) >= 30
    assert statistics.median(errors) < 0.0025
    assert errors[int(0.95 * len(errors)) - 1] < 0.014
