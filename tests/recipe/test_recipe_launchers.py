"""Launchers' configurations in a card: transformers' fsdp, accelerate's fsdp_config, DeepSpeed's file or mapping."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from recipe_cards import HEAD, made

from capienza.card.load import load_card
from capienza.errors import InputError, InputErrors
from capienza.recipe.read import recipe_of

FOUR = "placement: {gpus: 4}"
V5 = 'engine: {name: transformers, version: "5.24.0"}'
V4 = 'engine: {name: transformers, version: "4.48.1"}'


def parallel(training: str, *more: str):
    return made(f"{{method: full, {training}}}", FOUR, *more).parallel


def test_the_word_of_transformers_is_of_its_release() -> None:
    assert parallel("fsdp: true", V5).sharding == "fsdp2"
    old = parallel("fsdp: full_shard auto_wrap", V4)
    assert (old.sharding, old.data_ranks, old.shard_ranks, old.unsharded) == ("fsdp1", 4, 4, False)
    # transformers saves whole weights and gathers nothing ahead unless it is told to.
    assert (old.saves_whole, old.gathers_ahead, old.loads_once) == (True, False, False)


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("full_shard offload", "offload", "parameters"),
        ("shard_grad_op auto_wrap", "unsharded", True),
        ("no_shard", "shard_ranks", 1),
        ("hybrid_shard", "unsharded", False),
    ],
)
def test_words_of_fsdp(words: str, field: str, value: object) -> None:
    assert getattr(parallel(f"fsdp: {words}", V4), field) == value


def test_a_configuration_goes_before_the_word() -> None:
    words = (
        "fsdp: full_shard auto_wrap, bf16: true, fsdp_config: {fsdp_version: 2, fsdp_reshard_after_forward: false, "
        "fsdp_state_dict_type: SHARDED_STATE_DICT, fsdp_cpu_ram_efficient_loading: true, fsdp_offload_params: true}"
    )
    found = parallel(words.replace("full_shard ", ""), V5)
    assert (found.sharding, found.unsharded, found.saves_whole, found.loads_once, found.offload) == (
        "fsdp2", True, False, True, "parameters",
    )  # fmt: skip
    with pytest.raises(InputError) as raised:
        parallel(words, V5)
    assert raised.value.message.code == "recipe.two-values"


ZERO = {
    "bf16": {"enabled": True},
    "zero_optimization": {
        "stage": 3, "offload_optimizer": {"device": "cpu"}, "reduce_bucket_size": 5e8, "overlap_comm": False,
        "stage3_max_live_parameters": 2e8, "stage3_prefetch_bucket_size": "auto", "unheard_of": 1,
    },
    "train_micro_batch_size_per_gpu": "auto", "steps_per_print": 10,
}  # fmt: skip


def test_deepspeed_as_a_file_and_as_keys(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text(json.dumps(ZERO))
    card = tmp_path / "card.yaml"
    found = []
    for written in ("ds.json", json.dumps(ZERO)):
        card.write_text(f"{HEAD}training: {{method: full, deepspeed: {written}}}\n{FOUR}\n")
        recipe = recipe_of(load_card(str(card)), "bf16", "llama")
        found.append(recipe.parallel)
        told = [str(one) for one in recipe.left_out]
        assert [one for one in told if "unheard_of" in one], told
        assert not [one for one in told if "steps_per_print" in one]
    assert found[0] == found[1]
    one = found[0]
    assert (one.sharding, one.offload, one.bucket_elements, one.live_elements) == (
        "zero3",
        "optimizer",
        5 * 10**8,
        2 * 10**8,
    )
    assert (one.overlaps, one.auto_sizes) == (False, True)


REFUSED = {
    "fsdp: full_shrad": "fsdp-words",
    "deepspeed: nowhere.json": "launcher-file",
    "deepspeed: {zero_optimization: {stage: 2}, train_micro_batch_size_per_gpu: 8}": "launcher-other",
    "deepspeed: {zero_optimization: {stage: 3, reduce_bucket_size: many}}": "launcher-number",
    "fsdp: true, optimizer: adamw_8bit": "narrow-sharded",
    "fsdp: true, optimizer: paged_adamw_8bit": "narrow-sharded",
    "sharding: zero2, prefetch_elements: 5": "needs",
    "fsdp_config: {version: 2}, deepspeed: zero3": "two-values",
    "deepspeed: {zero_optimization: {stage: 3}}, optimizer_in_backward: true": "in-backward-sharded",
}


@pytest.mark.parametrize("written", REFUSED)
def test_what_cannot_be_is_refused_at_its_line(written: str, tmp_path: Path) -> None:
    card = tmp_path / "card.yaml"
    card.write_text(f"{HEAD}training: {{method: full, {written}}}\n{FOUR}\n{V5}\n")
    with pytest.raises((InputError, InputErrors)) as raised:
        recipe_of(load_card(str(card)), "bf16", "llama")
    errors = getattr(raised.value, "problems", (raised.value,))
    assert f"recipe.{REFUSED[written]}" in {one.message.code for one in errors}
    assert {one.place.line for one in errors} == {7}


def test_a_run_and_its_gpus_agree() -> None:
    assert made("{method: full, sharding: fsdp2}", "placement: {gpus: 8, tensor_parallel: 2}").parallel.data_ranks == 4
    with pytest.raises(InputErrors) as raised:
        made("{method: full, sharding: fsdp2}", "placement: {gpus: 8, data_parallel: 4}")
    assert "card.other-gpus" in {one.message.code for one in raised.value.problems}
