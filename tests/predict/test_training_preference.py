"""Preference learning without torch: scores worked out by hand, and what never holds less than what."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from training_cards import FULL, TINY_LLAMA, replaced, with_adapters

from capienza.errors import InputError
from capienza.predict.training.blocks.scores import Scoring, scored, shifted, tiled
from capienza.predict.training.passes import passes
from capienza.predict.training.tape import ALLOCATED, FREED, Tape, Weight
from capienza.recipe.recipe import Checkpointing, Loss, Preference

RELEASES = ["0.13.0", "0.16.1", "0.24.0", "0.29.1", "1.4.0", "1.12.0", "1.14.2", "1.16.0"]
V = 512
BF16, FP32 = 2, 4


def level(tape: Tape) -> tuple[int, int]:
    """What is alive, and the most that was."""
    alive, most, sizes = 0, 0, {}
    for code, block, size, _ in tape.events:
        if code == ALLOCATED:
            sizes[block] = size
            alive += size
            most = max(most, alive)
        elif code == FREED:
            alive -= sizes.pop(block)
    return alive, most


# kind, bytes of a logit, what two sequences of 8 rows keep beside their 16 x 512 logits, in blocks of 512 B:
# whole: the logarithms of 14 rows, and an index and a result; rows in 16 bits: logarithms, index and result of each
# sequence, and the results joined; rows in fp32: index and result of the choice, a sum each, joined, and the difference
KEPT = [
    ("whole", BF16, 14 * V * BF16 + 512 + 512),
    ("rows", BF16, 2 * (7 * V * BF16 + 512) + 512),
    ("rows", FP32, 512 + 2 * 512 + 512),
    ("kernel", BF16, 512 + 512),
]


@pytest.mark.parametrize("kind, item, kept", KEPT)
def test_what_scores_keep(kind, item, kept):
    tape = Tape()
    weight = Weight(16, V, item, True)
    from capienza.predict.training.operations import copy

    logits = copy(tape, weight.tensor)
    asked = Scoring(kind=kind, sequences=2, tokens=8, scored=7)
    seen = shifted(tape, logits, V, asked)
    made = scored(tape, seen, V, asked)
    del seen
    assert level(tape)[0] == 16 * V * item + kept
    del made, logits
    assert level(tape)[0] == 0


def test_a_head_in_tiles_is_never_whole():
    # 8192 rows of 64 in bf16 through a frozen head of 65536: a tile of 4096 x 32768 logits, seven numbers a row before
    # the tile; the rows are kept in a copy, and one number a row.
    tape = Tape()
    from capienza.predict.training.blocks.loss import Head
    from capienza.predict.training.blocks.modules import Linear
    from capienza.predict.training.operations import copy

    rows = copy(tape, Weight(8192, 64, BF16, True).tensor)
    head = Head(
        module=Linear(Weight(65536, 64, BF16, False)), kind="tiles", rows=8192, widens=False, widens_first=False,
        shifts=False, pieces=1, scales=False, caps=False, widens_outputs=False, keeps_outputs=False,
    )  # fmt: skip
    made = tiled(tape, rows, head, Scoring(kind="tiles", sequences=1, tokens=8192, scored=8192))
    kept = 2 * 8192 * 64 * BF16 + 8192 * FP32
    assert level(tape) == (kept + 8192 * FP32, kept + 7 * 8192 * FP32 + 4096 * 32768 * BF16)
    del made


def recipe_of(objective, version, **fields):
    kind = "fused_linear" if version == "1.16.0" and objective in ("dpo", "grpo") else "full"
    words = {"preference": Preference(reference="adapter_off" if objective in ("dpo", "grpo") else "none")} | fields
    return replaced(
        with_adapters(), objective=objective, framework="trl", libraries=(("trl", version),),
        loss=Loss(kind=kind, widens=False), **words,
    )  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(RELEASES), st.sampled_from(["dpo", "orpo", "simpo", "grpo"]), st.booleans(), st.integers(16, 96))
def test_more_tokens_pairs_or_a_reference_never_hold_less(version, objective, checkpointed, tokens):
    kind = "full" if checkpointed else "none"
    asked = recipe_of(objective, version, tokens=tokens, microbatch=1, checkpointing=Checkpointing(kind=kind))
    alone = passes(TINY_LLAMA, asked)
    for more in (
        replaced(asked, tokens=2 * tokens),
        replaced(asked, microbatch=2),
        replaced(asked, preference=Preference(reference="model")),
    ):
        found = passes(TINY_LLAMA, more)
        assert found.forward.total_bytes >= alone.forward.total_bytes
        assert found.backward.total_bytes >= alone.backward.total_bytes


@pytest.mark.parametrize("version", RELEASES)
def test_a_reference_runs_on_top_of_what_the_policy_keeps(version):
    paired = passes(TINY_LLAMA, recipe_of("dpo", version))
    alone = passes(TINY_LLAMA, recipe_of("dpo", version, preference=Preference(reference="precomputed")))
    assert paired.forward.total_bytes > alone.forward.total_bytes
    assert paired.gradients_bytes == alone.gradients_bytes


def test_only_the_completion_goes_through_the_head():
    whole = recipe_of("grpo", "1.4.0", tokens=128)
    half = msgspec.structs.replace(whole, preference=Preference(reference="adapter_off", completion_tokens=64))
    most, less = (passes(TINY_LLAMA, one).backward.total_bytes for one in (whole, half))
    assert less < most


def test_an_update_scores_its_prompts_before_they_are_written():
    told = Preference(rollout="transformers", prompt_tokens=64, completion_tokens=64)
    one = passes(TINY_LLAMA, recipe_of("grpo", "1.4.0", tokens=128, preference=told)).prefill
    two = passes(TINY_LLAMA, recipe_of("grpo", "1.4.0", tokens=128, accumulation=2, preference=told)).prefill
    assert two.total_bytes > one.total_bytes
    assert passes(TINY_LLAMA, recipe_of("grpo", "1.4.0", tokens=128)).prefill is None


@pytest.mark.parametrize("loss", ["fused_linear", "chunked"])
def test_a_loss_that_the_release_did_not_have_is_refused(loss):
    asked = recipe_of("dpo", "1.4.0")
    with pytest.raises(InputError) as refused:
        passes(TINY_LLAMA, msgspec.structs.replace(asked, loss=Loss(kind=loss)))
    assert refused.value.message.code == "training.recipe-not-covered"


def test_dora_makes_the_product_whole():
    # the identity of 256 x 256 in fp32 alone, and the lengths of 256 queries and 128 values in each of 3 layers
    plain = passes(TINY_LLAMA, with_adapters())
    dora = passes(TINY_LLAMA, with_adapters(is_dora=True))
    more = dora.forward.total_bytes - plain.forward.total_bytes
    assert more > 256 * 256 * FP32
    assert dora.gradients_bytes - plain.gradients_bytes == 3 * (1024 + 512)


def test_another_framework_is_taken_to_run_pairs_as_trl_does():
    asked = replaced(FULL, objective="dpo", preference=Preference(reference="none"), loss=Loss(kind="full"))
    (told,) = passes(TINY_LLAMA, asked).assumed
    assert told.code == "training.taken-as-trl"
    assert told.parameters["release"] == "1.16"
    assert passes(TINY_LLAMA, replaced(asked, framework="trl")).assumed == ()
    assert passes(TINY_LLAMA, FULL).assumed == ()
