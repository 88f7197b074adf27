"""Forward and backward pass: measured runs, slopes worked by hand, and what must hold for every model and recipe."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fms_rows import architecture_of, fms_rows, recipe_of
from hypothesis import given, settings
from hypothesis import strategies as st

from capienza.allocator.events import ALLOC, FREE
from capienza.allocator.replay import replay
from capienza.architecture.model import Architecture
from capienza.architecture.registry import describe
from capienza.errors import InputError
from capienza.predict.training.blocks.build import Builder
from capienza.predict.training.passes import Passes, events, passes, walked_events
from capienza.predict.training.resident import resident_of
from capienza.recipe.recipe import (
    Adapters,
    Checkpointing,
    Evaluation,
    Loss,
    Optimizer,
    Precision,
    Recipe,
)

CONFIGS = Path(__file__).parents[2] / "examples" / "configs"


def model(**changes: Any) -> Architecture:
    """A small Llama."""
    sizes = {
        "model_type": "llama", "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 3,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 512, "max_position_embeddings": 4096,
        "tie_word_embeddings": False,
    }  # fmt: skip
    return describe(sizes | changes)


def recipe(**changes: Any) -> Recipe:
    """A whole training in bf16."""
    base = Recipe(
        framework="transformers", framework_version=None, objective="sft", method="full", tokens=256, microbatch=1,
        accumulation=1, is_packed=True, has_padding_mask=False, attention="sdpa", kernels="transformers",
        is_compiled=False, precision=Precision(base="bf16", trained="bf16"),
        optimizer=Optimizer(family="adamw", run="fused"), checkpointing=Checkpointing(kind="none"),
        loss=Loss(kind="full"), evaluation=Evaluation(microbatch=1),
    )  # fmt: skip
    return msgspec.structs.replace(base, **changes)


def lora(**changes: Any) -> Recipe:
    """Adapters on every linear module of a frozen bf16 model, under autocast."""
    adapters = Adapters(rank=8, alpha=8, dropout=0.0, targets=("all-linear",), dtype="fp32")
    precision = Precision(base="bf16", trained="fp32", autocast="bf16")
    return recipe(method="lora", adapters=adapters, precision=precision, **changes)


def highest(found: Passes) -> int:
    """The most of the two passes."""
    return max(found.forward.total_bytes, found.backward.total_bytes)


def test_peaks_are_those_of_the_measured_runs(shared: Path) -> None:
    """Forty-eight runs on one A100: resident by `resident`, the rest by the passes, or the optimizer's step."""
    errors = []
    for row in fms_rows(shared):
        peak = next((one["bytes"] for one in row["measured"] if one["counter_kind"] == "torch_allocated_peak"), None)
        if peak is None:
            continue
        architecture, asked = architecture_of(row), recipe_of(row)
        found = passes(architecture, asked)
        after = resident_of(architecture, asked).after_bytes
        predicted = after + max(highest(found), 2 * found.gradients_bytes)
        errors.append(abs(predicted / peak - 1))
    errors.sort()
    assert len(errors) >= 48
    assert statistics.median(errors) < 0.001
    assert errors[int(0.95 * len(errors)) - 1] < 0.025


@pytest.mark.parametrize(
    ("release", "shifts", "bytes_a_logit"), [("4.45.2", True, 12), ("4.48.1", True, 14), ("5.24.0", False, 10)]
)
def test_logits_cost_what_each_release_makes_of_them(release: str, shifts: bool, bytes_a_logit: int) -> None:
    """Twice the vocabulary is so many bytes more for each logit, in the forward pass."""
    asked = recipe(
        method="lora", adapters=Adapters(rank=8, alpha=8, dropout=0.0, targets=("q_proj",), dtype="fp32"),
        precision=Precision(base="bf16", trained="fp32"), checkpointing=Checkpointing(kind="full"),
        loss=Loss(kind="full", shifts=shifts), libraries=(("transformers", release),), tokens=512, microbatch=2,
    )  # fmt: skip
    small, large = (passes(model(vocab_size=size), asked).forward.total_bytes for size in (8192, 16384))
    assert large - small == 1024 * 8192 * bytes_a_logit


@pytest.mark.parametrize(("outputs", "bytes_a_logit"), [(False, 10), (True, 12)])
def test_autocast_takes_only_what_the_loss_itself_reads_to_fp32(outputs: bool, bytes_a_logit: int) -> None:
    """Logits 2, a shifted copy 2, `log_softmax` 2 and what `nll_loss` reads 4; outputs in fp32 find the copy gone."""
    asked = recipe(
        method="lora", adapters=Adapters(rank=8, alpha=8, dropout=0.0, targets=("q_proj",), dtype="fp32"),
        precision=Precision(base="bf16", trained="fp32", autocast="bf16", widens_outputs=outputs),
        checkpointing=Checkpointing(kind="full"), loss=Loss(kind="full", widens=False, shifts=True),
        libraries=(("transformers", "4.48.1"),), tokens=512, microbatch=2,
    )  # fmt: skip
    small, large = (passes(model(vocab_size=size), asked).forward.total_bytes for size in (8192, 16384))
    assert large - small == 1024 * 8192 * bytes_a_logit


def test_the_shifted_logits_of_a_sequence_alone_are_no_copy() -> None:
    """`contiguous` gives back what already is; two sequences without their last rows are not in one piece."""
    parts = {"loss": Loss(kind="full", shifts=True), "libraries": (("transformers", "4.48.1"),)}
    asked = lora(checkpointing=Checkpointing(kind="full"), **parts)
    alone, two = (
        passes(model(vocab_size=16384), msgspec.structs.replace(asked, tokens=tokens, microbatch=rows))
        for tokens, rows in ((1024, 1), (512, 2))
    )
    logits = 1024 * 16384
    assert 0.95 * 4 * logits < two.forward.total_bytes - alone.forward.total_bytes <= 4 * logits


@settings(max_examples=20, deadline=None)
@given(tokens=st.integers(64, 512), width=st.sampled_from([64, 128, 256]), vocabulary=st.sampled_from([8192, 16384]))
def test_a_normalised_head_costs_a_second_head_once_it_is_made(tokens: int, width: int, vocabulary: int) -> None:
    """Kept to the end of the forward pass in bf16; while it is made also in fp32, whatever the rows are."""
    small = model(vocab_size=vocabulary, hidden_size=width, intermediate_size=2 * width)
    asked = lora(checkpointing=Checkpointing(kind="full"), tokens=tokens)
    plain, scaled = (
        passes(small, msgspec.structs.replace(asked, loss=Loss(kind="full", is_normalised=one)))
        for one in (False, True)
    )
    head, more = vocabulary * width, scaled.forward.total_bytes - plain.forward.total_bytes
    assert 2 * head <= more <= 6 * head
    if 10 * tokens > 6 * width:  # the logits are the highest moment either way
        assert more == 2 * head


def test_inputs_of_four_bit_products_outlive_a_checkpoint_without_reentrance() -> None:
    """bitsandbytes before 0.43.2 holds them by an attribute, which no checkpoint sees: 2 B a row's element each.

    Of a layer: what goes into q, k and v; o; gate and up; down. GPTQ's products hold none.
    """

    def above(kind: str, is_reentrant: bool, layers: int) -> int:
        asked = recipe(
            method="qlora", adapters=Adapters(rank=8, alpha=8, dropout=0.0, targets=("q_proj",), dtype="fp32"),
            precision=Precision(base="bf16", trained="fp32", quantised=kind, autocast="bf16"), tokens=1024,
            checkpointing=Checkpointing(kind="full", is_reentrant=is_reentrant),
            libraries=(("bitsandbytes", "0.41.3"), ("transformers", "4.36.2")),
        )  # fmt: skip
        return passes(model(num_hidden_layers=layers), asked).forward.total_bytes

    def of_ten_layers(kind: str) -> int:
        """What ten layers take more without reentrance."""
        return sum(
            sign * (above(kind, False, layers) - above(kind, True, layers)) for sign, layers in ((1, 14), (-1, 4))
        )

    assert of_ten_layers("nf4") == 10 * 2 * 1024 * (128 + 128 + 128 + 256)
    assert of_ten_layers("gptq-int4-g128") == 0


def test_a_checkpointed_layer_more_is_its_input_more() -> None:
    """And what autocast remembers of its adapters, until the forward pass ends."""
    asked = lora(checkpointing=Checkpointing(kind="full"))
    few, many = (passes(model(num_hidden_layers=layers), asked) for layers in (4, 14))
    ends = (128 + 128) + 2 * (128 + 64) + (128 + 128) + 3 * (128 + 256)
    rows, casts = 2 * 256 * 128, 2 * 8 * ends
    assert many.forward.total_bytes - few.forward.total_bytes == 10 * (rows + casts)


def test_eager_attention_keeps_six_bytes_a_score() -> None:
    """fp32 softmax and its copy; two layers less leave the moment as it is."""
    few, many = (
        passes(model(num_hidden_layers=layers), recipe(attention="eager", tokens=1024)).forward.total_bytes
        - passes(model(num_hidden_layers=layers), recipe(tokens=1024)).forward.total_bytes
        for layers in (4, 6)
    )
    scores = 4 * 1024**2
    repeated = 4 * 1024 * 32 * 2 * 2
    assert abs((many - few) / 2 - 6 * scores) <= 2 * repeated


def test_fused_linear_cross_entropy_never_holds_all_logits() -> None:
    asked = lora(tokens=4096, checkpointing=Checkpointing(kind="full"))
    fused = msgspec.structs.replace(asked, loss=Loss(kind="fused_linear", widens=False))
    large = model(vocab_size=65536)
    logits = 4096 * 65536
    assert highest(passes(large, asked)) > 10 * logits
    assert highest(passes(large, fused)) < logits


def test_gradients_of_the_first_microbatch_are_there_in_the_second() -> None:
    one, two = passes(model(), recipe()), passes(model(), recipe(accumulation=2))
    assert one.forward.gradients_bytes == 0
    assert two.forward.gradients_bytes == one.gradients_bytes
    assert two.gradients_bytes == one.gradients_bytes


@pytest.mark.parametrize(
    "changes",
    [
        {"is_compiled": True},
        {"objective": "dpo", "loss": Loss(kind="chunked")},
        {"precision": Precision(base="bf16", trained="fp32", quantised="int8"), "method": "qlora"},
    ],
)
def test_a_recipe_that_is_not_covered_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InputError) as refused:
        passes(model(), recipe(**changes))
    assert refused.value.message.code == "training.recipe-not-covered"


@pytest.mark.parametrize(
    "folder",
    [
        "openai--gpt-oss-20b",
        "deepseek-ai--DeepSeek-V3",
        "Qwen--Qwen3-Next-80B-A3B-Instruct",
        "meta-llama--Llama-4-Scout-17B-16E-Instruct",
    ],
)
def test_a_block_that_is_not_understood_is_refused_by_name(folder: str) -> None:
    architecture = describe(json.loads((CONFIGS / folder / "config.json").read_text(encoding="utf-8")))
    with pytest.raises(InputError) as refused:
        passes(architecture, recipe())
    assert refused.value.message.code == "training.not-covered"
    assert architecture.model_type in str(refused.value.message)


def test_a_family_nobody_compared_is_said() -> None:
    (told,) = passes(msgspec.structs.replace(model(), model_type="new_llama"), recipe()).assumed
    assert told.code == "training.taken-as-llama"
    assert passes(model(), recipe()).assumed == ()


KINDS = st.sampled_from([Checkpointing(kind="none"), Checkpointing(kind="full"),
                         Checkpointing(kind="full", is_reentrant=True)])  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 5), st.integers(1, 6), st.booleans(), st.sampled_from(["sdpa", "eager"]), KINDS, st.integers(1, 3)
)
def test_the_whole_walk_and_the_composed_one_agree(
    layers: int, blocks: int, adapts: bool, attention: str, kind: Checkpointing, accumulation: int
) -> None:
    """Every event of every layer, run through the allocator, has the peaks of the few that were walked."""
    asked = (lora if adapts else recipe)(
        tokens=64 * blocks, attention=attention, checkpointing=kind, accumulation=accumulation
    )
    architecture = model(num_hidden_layers=layers)
    found, (made, phases) = (
        passes(architecture, asked),
        walked_events(Builder(architecture, asked)),
    )
    seen = replay(made, phases=phases)
    for phase, moment in (("forward", found.forward), ("backward", found.backward)):
        whole = max(span.allocated_bytes for span in seen.phases if span.name == phase)
        assert moment.total_bytes == whole
    assert seen.final_allocated_bytes == found.gradients_bytes
    assert min(found.forward.activations_bytes, found.backward.gradients_bytes, found.backward.logits_bytes) >= 0


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 8), KINDS, st.booleans())
def test_more_tokens_never_take_less(blocks: int, kind: Checkpointing, adapts: bool) -> None:
    few, many = (
        passes(model(), (lora if adapts else recipe)(tokens=128 * count, checkpointing=kind))
        for count in (blocks, blocks + 1)
    )
    assert few.forward.total_bytes < many.forward.total_bytes
    assert few.backward.total_bytes < many.backward.total_bytes


def test_only_gradients_are_left_of_the_events() -> None:
    made, _ = events(model(), recipe(accumulation=2))
    alive = {block: size for code, block, size, _ in made if code == ALLOC}
    for code, block, _, _ in made:
        if code == FREE:
            del alive[block]
    assert sum(alive.values()) == passes(model(), recipe()).gradients_bytes
