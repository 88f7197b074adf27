"""Weights that an engine holds in a larger format than the stored one, by GPU and release: worked and as properties."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capienza.api.sizing import facts_of, named_gpu, named_traits
from capienza.card.model import Card, Engine, ModelRef, Placement, TokenCount, Tokens, Training, Weights
from capienza.predict.gpu import NO_GPU
from capienza.predict.model import load_model
from capienza.predict.resident import held_as, weights_on
from capienza.predict.sizing import ask_engine, build_ledger
from capienza.predict.weights import weight_bytes

CONFIGS = Path(__file__).parents[2] / "examples" / "configs"
GPT_OSS = load_model(ModelRef(path=str(CONFIGS / "openai--gpt-oss-20b")))
DEEPSEEK = load_model(ModelRef(path=str(CONFIGS / "deepseek-ai--DeepSeek-V3")))
QWEN = load_model(ModelRef(path=str(CONFIGS / "Qwen--Qwen3-8B")))
NEWEST = "5.24.0"


def card(engine="transformers", version=NEWEST, weights=None, **more):
    fields = {
        "name": "c",
        "model": ModelRef(path="x"),
        "task": "inference",
        "engine": Engine(name=engine, version=version),
        "weights": Weights(format=weights),
        "tokens": Tokens(required=TokenCount(total=4096, prompt=2048, output=2048)),
        "concurrency": 1,
    }
    return Card(**(fields | more))


def facts(gpu):
    return facts_of(named_gpu(gpu), named_traits(gpu))


def weights_entry(made, model, gpu, gpus=1):
    known = facts(gpu)
    ledger = build_ledger(made, model, gpus, answer=ask_engine(made, model, gpus, known), gpu=known)
    return next(entry for entry in ledger.entries if entry.name == "weights")


STORED = weight_bytes(DEEPSEEK, None).total_bytes
IN_BF16 = weight_bytes(DEEPSEEK, "bf16").total_bytes
QWEN_FP8 = weight_bytes(QWEN, "fp8").total_bytes
QWEN_BF16 = weight_bytes(QWEN, "bf16").total_bytes

# (release of transformers, GPU, floor, expected, ceiling)
WORKED = [
    (NEWEST, "A100 SXM4 80GB", QWEN_BF16, QWEN_BF16, QWEN_BF16),  # 8.0, read at this release: proved
    (NEWEST, "RTX 3090", QWEN_BF16, QWEN_BF16, QWEN_BF16),
    (NEWEST, "L4", QWEN_FP8, QWEN_FP8, QWEN_FP8),  # 8.9
    (NEWEST, "H100 SXM", QWEN_FP8, QWEN_FP8, QWEN_FP8),
    ("5.20.0", "RTX 3090", QWEN_FP8, QWEN_BF16, QWEN_BF16),  # the rule of another release: expected, not proved
    (NEWEST, "MI300X", QWEN_FP8, QWEN_FP8, QWEN_FP8),  # a rule of NVIDIA's cards says nothing of AMD's
]


@pytest.mark.parametrize("version, gpu, floor, expected, ceiling", WORKED)
def test_fp8_below_8_9_is_held_in_bf16_by_transformers(version, gpu, floor, expected, ceiling):
    amount = weights_entry(card(version=version, weights="fp8"), QWEN, gpu).amount
    assert (amount.floor, amount.expected, amount.ceiling) == (floor, expected, ceiling)
    assert QWEN_BF16 > 1.7 * QWEN_FP8


def test_a_stored_fp8_checkpoint_doubles():
    weights = weights_on(DEEPSEEK, None, held_as(card(), DEEPSEEK, facts("A100 SXM4 80GB")))
    assert (weights.total_bytes, weights.expected_bytes, weights.ceiling_bytes) == (IN_BF16, IN_BF16, IN_BF16)
    assert 1.9 < IN_BF16 / STORED < 2.0
    assert held_as(card(), DEEPSEEK, facts("H100 SXM")) is None


def test_mxfp4_hangs_on_what_is_installed():
    """gpt-oss-20b: 12.8 GiB as stored, 39 GiB in bf16; which it is depends on triton and kernels."""
    entry = weights_entry(card(), GPT_OSS, "L4")
    stored, larger = weight_bytes(GPT_OSS, None).total_bytes, weight_bytes(GPT_OSS, "bf16").total_bytes
    assert (entry.amount.floor, entry.amount.expected, entry.amount.ceiling) == (stored, stored, larger)
    assert entry.formula.code == "predict.formula-maybe-larger"
    assert "hf.mxfp4" in str(entry.formula)
    turing = weights_entry(card(), GPT_OSS, "T4").amount
    assert turing.expected == stored
    volta = weights_entry(card(), GPT_OSS, "V100 SXM2 16GB").amount
    assert (volta.floor, volta.ceiling) == (larger, larger)


def test_vllm_takes_the_same_memory_where_it_is_slower():
    made = card("vllm", "0.33.0", "fp8")
    assert held_as(made, QWEN, facts("RTX 3090")) is None


def test_a_name_that_may_mean_either_is_proved_by_neither():
    both = facts("L4")
    both = type(both)(both.total_bytes, both.name, both.is_estimated, both.traits + facts("RTX 3090").traits)
    held = held_as(card(weights="fp8"), QWEN, both)
    assert (held.is_proved, held.is_expected) == (False, False)
    weights = weights_on(QWEN, "fp8", held)
    assert (weights.total_bytes, weights.expected_bytes, weights.ceiling_bytes) == (QWEN_FP8, QWEN_FP8, QWEN_BF16)


def test_without_layers_the_factor_of_the_rule_bounds_it():
    bare = msgspec.structs.replace(DEEPSEEK, architecture=None, parameters=10**9, bits=8)
    held = held_as(card(), bare, facts("A100 SXM4 80GB"))
    assert weights_on(bare, None, held).total_bytes == 2 * 10**9


def test_fine_tuning_by_unsloth_is_counted_so_too():
    made = card(
        "unsloth",
        "2026.10.9",
        "fp8",
        task="fine-tuning",
        microbatch=1,
        concurrency=None,
        training=Training(method="lora"),
    )
    amount = weights_entry(made, QWEN, "RTX 3090").amount
    assert (amount.floor, amount.ceiling) == (QWEN_BF16, QWEN_BF16)
    assert weights_entry(made, QWEN, "RTX 4090").amount.floor == QWEN_FP8


def test_two_gpus_share_what_is_added():
    made = card(weights=None, placement=Placement(gpus=2, tensor_parallel=2))
    amount = weights_entry(made, GPT_OSS, "L4", 2).amount
    stored, larger = weight_bytes(GPT_OSS, None).total_bytes, weight_bytes(GPT_OSS, "bf16").total_bytes
    assert amount.floor == -(-stored // 2)
    assert amount.ceiling >= larger // 2


def test_no_gpu_and_no_engine_change_nothing():
    made = card(weights="fp8")
    assert held_as(made, QWEN, NO_GPU) is None
    assert held_as(msgspec.structs.replace(made, engine=None), QWEN, facts("RTX 3090")) is None


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["transformers", "unsloth", "vllm", "sglang", "other"]),
    st.sampled_from([None, NEWEST, "4.57.1", "2026.10.9", "0.33.0", "junk"]),
    st.sampled_from(["T4", "RTX 3090", "RTX 4090", "H100 SXM", "B200", "MI300X", "Gaudi 3", "V100 SXM2 16GB"]),
    st.sampled_from([None, "fp8", "bf16", "nf4", "w8a8", "mxfp4"]),
)
def test_a_larger_format_only_widens_upwards(engine, version, gpu, weights):
    """The figures never fall, keep their order, and without a rule stay what they were."""
    made = card(engine, version, weights)
    held = held_as(made, QWEN, facts(gpu))
    plain, widened = weight_bytes(QWEN, weights), weights_on(QWEN, weights, held)
    assert plain.total_bytes <= widened.total_bytes <= widened.expected_bytes
    assert held is None or widened.expected_bytes <= (widened.ceiling_bytes or 0)
    assert held is not None or widened == plain
    assert held is None or weights in ("fp8", "mxfp4")
