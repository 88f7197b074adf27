"""`validate` and `calibrate` as commands: documents, errors, and ceilings that never know their own model."""

from __future__ import annotations

import json

import pytest

from capienza.predict.calibration import Calibration, Kind, Ratio, conformal, shipped
from capienza.validate.groups import groups, percentile
from capienza.validate.run import calibrated, calibration_of
from capienza.validate.scored import Scored

ROW = {
    "id": "made-up", "source": "own", "engine": "vLLM", "engine_version": "0.8.5 (V0)", "model": "own/llama",
    "arch": {
        "architecture": "LlamaForCausalLM", "num_hidden_layers": 2, "hidden_size": 256, "intermediate_size": 512,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1024, "max_position_embeddings": 512,
    },
    "weight_format": "bf16", "dtype": "bfloat16", "kv_cache_dtype": "auto", "block_size": 16, "gpu": "own",
    "num_gpus": 1, "tp": 1, "pp": 1, "max_model_len": 512, "max_num_seqs": 8, "gpu_memory_utilization": 0.9,
    "measured": {
        "weights": {"value": 4.0, "unit_logged": "MiB"}, "kv_cache": {"value": 1.0, "unit_logged": "GiB"},
        "gpu_blocks": {"value": 65536, "unit_logged": "count"},
        "total_gpu_memory": {"value": 8.0, "unit_logged": "GiB"},
    },
}  # fmt: skip


@pytest.fixture
def cases(tmp_path):
    path = tmp_path / "cases.jsonl"
    path.write_text(json.dumps(ROW) + "\n\n")
    return path


def test_a_case_is_predicted_from_its_flags_and_total(capienza, cases):
    shown = capienza("validate", cases, "--json")
    assert (shown.code, shown.err) == (0, "")
    data = json.loads(shown.out)
    assert data["schema"] == "capienza.validate/1"
    rows = {row["quantity"]: row for row in data["rows"]}
    # 16 tokens x 2 layers x 2 heads x 64 x 2 (K and V) x 2 B = 16384 B a block
    assert rows["gpu_blocks_from_pool"]["predicted"]["expected"] == 2**30 // 16384 == 65536
    assert rows["gpu_blocks_from_pool"]["error"] == 0
    assert rows["gpu_blocks"]["status"] == "scored"
    assert {"id", "file", "quantity", "predicted", "measured", "error", "covered", "status", "reason"} <= rows[
        "weights"
    ].keys()


@pytest.mark.parametrize("by", ["engine", "arch", "format", "engine,arch,format"])
def test_groups_are_split_by_what_is_asked(capienza, cases, by):
    data = json.loads(capienza("validate", cases, "--json", "--by", by).out)
    assert all(list(group["by"]) == by.split(",") for group in data["groups"])


@pytest.mark.parametrize("form", ["human", "md"])
@pytest.mark.parametrize("language", ["en", "it"])
def test_it_is_shown_to_people(capienza, cases, form, language):
    shown = capienza("validate", cases, "--format", form, "--lang", language)
    assert (shown.code, shown.err) == (0, "")
    assert "made-up" in shown.out


@pytest.mark.parametrize(
    "text, line, words",
    [
        ("{\n", 1, "not JSON"),
        ("\n\n[1]\n", 3, "no measured case"),
        ('{"id": "x"}\n', 1, "measured is missing"),
        ('{"id": "x", "measured": {}}\n', 1, "engine and framework"),
        ("[" * 100_000 + "\n", 1, "not JSON"),
        ("", None, "holds no case"),
    ],
)
@pytest.mark.parametrize("command", ["validate", "calibrate"])
def test_a_file_of_something_else_is_an_error_with_its_line(capienza, tmp_path, command, text, line, words):
    path = tmp_path / "cases.jsonl"
    path.write_text(text)
    shown = capienza(command, path)
    assert (shown.code, shown.out) == (3, "")
    assert shown.err.startswith(f"{path}:{line}: " if line else f"{path}: ")
    assert words in shown.err


@pytest.mark.parametrize(
    "key", ["arch", "measured", "flags", "weight_format", "tp", "lora", "gpu", "engine_version", "oom"]
)
@pytest.mark.parametrize("value", [None, 0, -1, 1.5, "x", [], {}, 10**30, True])
def test_an_odd_value_in_a_case_is_no_crash(capienza, tmp_path, key, value):
    path = tmp_path / "cases.jsonl"
    path.write_text(json.dumps(ROW | {key: value}) + "\n")
    shown = capienza("validate", path, "--json")
    assert shown.code in (0, 3), shown.err
    json.loads(shown.out)


def test_equal_cases_give_an_equal_calibration(capienza, cases):
    one, two = capienza("calibrate", cases), capienza("calibrate", cases)
    assert one.code == 0
    assert one.out == two.out
    assert set(json.loads(one.out)["sources"]) == {"cases.jsonl"}


def scored(model, expected, measured, quantity="weights"):
    return Scored(
        id=f"{model} {measured}", quantity=quantity, engine="e", arch="a", weight_format="f", model=model,
        floor=0, expected=expected, measured=measured, status="scored",
    )  # fmt: skip


def test_a_model_never_calibrates_itself():
    rows = [scored("one", 100, 150), scored("two", 100, 101), scored("three", 100, 100)]
    calibration = calibration_of(rows, {})
    ceilings = {row.model: calibrated(row, calibration).ceiling for row in rows}
    assert ceilings["one"] < 150 < ceilings["two"]
    assert ceilings["two"] == ceilings["three"]


@pytest.mark.parametrize("count", [19, 20, 39, 99, 400])
def test_with_enough_cases_the_ceiling_is_one_of_them(count):
    values = [1 + index / count for index in range(count)]
    factor = conformal(values)
    assert factor in values
    assert sum(value <= factor for value in values) >= 0.95 * count


@pytest.mark.parametrize("count", range(1, 19))
def test_few_cases_give_more_than_the_largest(count):
    values = [1.1 + index / 100 for index in range(count)]
    assert conformal(values) > max(values)


def test_no_case_at_all_is_twice_and_said():
    factor = Calibration().factor("e", "weights")
    assert (factor.value, factor.cases) == (2.0, 0)


def test_another_engines_cases_stand_in():
    kinds = (Kind(engine="other", quantity="weights", ratios=(Ratio("m", 1.5),)),)
    assert Calibration(kinds=kinds).factor("e", "weights").cases == 1


def test_the_shipped_calibration_has_cases_for_every_engines_weights():
    assert all(shipped().factor(engine, "weights").cases > 0 for engine in ("vllm", "sglang"))


@pytest.mark.parametrize(
    "values, share, found", [([1], 0.95, 1), ([1, 2, 3], 0.5, 2), ([0, 10], 0.95, 9.5), ([3, 1, 2], 1, 3)]
)
def test_percentiles_interpolate(values, share, found):
    assert percentile(values, share) == pytest.approx(found)


def test_a_group_says_how_large_its_errors_are():
    (group,) = groups([scored("one", 110, 100), scored("two", 95, 100), scored("three", 100, 100)])
    assert (group.n, group.median, group.max) == (3, pytest.approx(0.05), pytest.approx(0.1))
    assert group.bias == pytest.approx(0.05 / 3)
