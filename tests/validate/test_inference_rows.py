"""What is compared, what is set apart and why, on small cases of our own making."""

from __future__ import annotations

import pytest
from cases_at_hand import ARCH, case, count, gib, of

from capienza.validate.groups import groups
from capienza.validate.inference_rows import inference_row
from capienza.validate.row_capacity import row_capacity
from capienza.validate.row_case import engine_name
from capienza.validate.run import calibration_of


def test_a_complete_case_is_scored_throughout() -> None:
    found = of(case())
    assert {scored.status for scored in found.values()} == {"scored"}
    assert set(found) == {
        "weights", "gpu_blocks", "gpu_blocks_from_pool", "max_concurrency", "max_concurrency_from_pool"
    }  # fmt: skip
    assert found["weights"].error == pytest.approx(0, abs=1e-3)
    assert found["gpu_blocks_from_pool"].expected == 9728


def test_from_pool_reads_the_pool_and_end_to_end_does_not() -> None:
    half = case()
    half["measured"] = {**half["measured"], "kv_cache": gib(9.5)}
    before, after = of(case()), of(half)
    assert after["gpu_blocks_from_pool"].expected == before["gpu_blocks_from_pool"].expected / 2
    assert after["gpu_blocks"].expected == before["gpu_blocks"].expected


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"gpu_memory_utilization": None}, "gpu_memory_utilization"),
        ({"max_model_len": None}, "max_model_len"),
        ({"measured": {"gpu_blocks": count(1000)}, "gpu": "A100 40GB"}, "total_gpu_memory"),
    ],
)
def test_what_is_not_stated_is_named_and_the_figure_stands_apart(changes: dict, named: str) -> None:
    scored = of(case(**changes))["gpu_blocks"]
    assert scored.status == "flagged"
    assert scored.error is not None
    assert f"not stated: {named};" in scored.reason
    assert scored.is_covered is None


def test_without_a_capacity_there_is_no_figure_to_show() -> None:
    scored = of(case(measured={"gpu_blocks": count(1000)}, gpu="24 GB class"))["gpu_blocks"]
    assert (scored.status, scored.expected, scored.error) == ("skipped", None, None)
    assert "total_gpu_memory" in scored.reason


def test_a_flagged_error_enters_no_group_and_no_calibration() -> None:
    flagged = inference_row(case(max_model_len=None))
    rows = [row for row in flagged if row.quantity == "gpu_blocks"]
    assert [group.n for group in groups(rows, ())] == [0]
    assert calibration_of(rows, {}).kinds == ()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"model_basis": "from the KV geometry"}, "size inferred: from the KV geometry"),
        (
            {"model": "unsloth/llama-3-8b-unsloth-bnb-4bit", "weight_format": "bitsandbytes nf4"},
            "some layers in 16 bit",
        ),
        ({"weight_format": "bitsandbytes nf4 (dynamic)"}, "some layers in 16 bit"),
        ({"weight_format": "GGUF Q4_K_M"}, "GGUF"),
        ({"weight_format": "int4 experts (compressed-tensors)"}, "group size"),
        ({"model": "CosyVoice2 (Llama trunk, speech head)"}, "another head"),
        ({"weight_format": "bf16, most experts on CPU"}, "host memory"),
    ],
)
def test_uncertain_weights_are_flagged_and_the_pool_still_scored(changes: dict, reason: str) -> None:
    found = of(case(**changes))
    for quantity in ("weights", "gpu_blocks", "max_concurrency"):
        assert found[quantity].status == "flagged"
        assert reason in found[quantity].reason
    assert found["gpu_blocks_from_pool"].status == "scored"


@pytest.mark.parametrize("changes", [{"flag": "known bug"}, {"arch": None}])
def test_an_odd_case_is_flagged_throughout(changes: dict) -> None:
    found = of(case(**changes))
    assert {scored.status for scored in found.values()} == {"flagged"}
    assert all(scored.reason for scored in found.values())


@pytest.mark.parametrize(
    "changes",
    [
        {"arch": {**ARCH, "architecture": "NeverHeardOfForCausalLM"}},
        {"weight_format": "a format of tomorrow"},
        {"tp": 3},
        {"engine": "EngineX"},
    ],
)
def test_what_is_not_understood_is_skipped_with_the_reason(changes: dict) -> None:
    found = of(case(**changes))
    assert {scored.status for scored in found.values()} == {"skipped"}
    assert all(scored.reason for scored in found.values())


def test_a_case_without_a_predicted_figure_still_has_an_entry() -> None:
    (entry,) = inference_row(case(measured={"cpu_blocks": count(2048)}))
    assert (entry.quantity, entry.status) == ("none", "skipped")
    assert "cpu_blocks" in entry.reason


@pytest.mark.parametrize(
    ("changes", "status", "word"),
    [
        ({"measured": {"total_gpu_memory": gib(14.7)}}, "scored", "overflow"),
        ({"max_model_len": 400_000}, "scored", "overflow"),
        ({"gpu": None, "measured": {}}, "flagged", None),
        ({"gpu": "24 GB class (inferred)", "measured": {}}, "flagged", None),
        ({"oom": {"what": "process killed by the OS"}}, "flagged", None),
        ({"oom": {"what": "CUDA invalid argument"}}, "flagged", None),
        ({"model_basis": "inferred"}, "flagged", None),
    ],
)
def test_the_word_of_a_case_that_died(changes: dict, status: str, word: str | None) -> None:
    scored = of(case(**({"oom": {"phase": "load", "what": "out of memory"}} | changes)))["oom"]
    assert (scored.status, scored.word, scored.measured) == (status, word, "oom")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("vLLM", "vllm"), ("SGLang + KTransformers", "sglang"), ("HF transformers", "transformers"), ("TGI", "tgi"),
        ("TensorRT-LLM (dynamo)", "tensorrt-llm"), ("EngineX", "EngineX"),
    ],
)  # fmt: skip
def test_engines_by_the_names_of_tables(text: str, expected: str) -> None:
    assert engine_name(text) == expected


@pytest.mark.parametrize(
    ("gpu", "low", "high"),
    [("H100 80GB", 79.0, 79.4), ("A100-SXM4-80GB", 78.5, 79.4), ("NVIDIA L4 24GB", 22.0, 22.4)],
)
def test_a_named_card_has_its_catalogued_total(gpu: str, low: float, high: float) -> None:
    capacity = row_capacity({"gpu": gpu, "measured": {}})
    assert capacity is not None
    assert low <= capacity.total_bytes / 2**30 <= high


@pytest.mark.parametrize("gpu", ["", "24 GB class (inferred)", "8-GPU Hopper node (not named)", "no such card"])
def test_a_card_that_is_not_named_has_no_capacity(gpu: str) -> None:
    assert row_capacity({"gpu": gpu, "measured": {}}) is None


def test_a_stated_total_wins_over_the_catalogue() -> None:
    capacity = row_capacity({"gpu": "H100 80GB", "measured": {"total_gpu_memory": gib(40)}})
    assert capacity is not None
    assert capacity.total_bytes == 40 * 2**30
