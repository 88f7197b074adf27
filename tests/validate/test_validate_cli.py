"""`validate` and `calibrate` as commands: documents, errors, and ceilings that never know their own model."""

from __future__ import annotations

import json
import os

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
        ("\n\n[1]\n", 3, "no JSON object"),
        ('{"id": "x"}\n', 1, "measured is missing"),
        ('{"id": "x", "measured": {}}\n', 1, "engine and framework"),
        ("[" * 100_000 + "\n", 1, "nested too deeply"),
        ('"x"\n', 1, "it is a text, not an object"),
        ("[1]\n", 1, "it is a list, not an object"),
        ('{"id": NaN}\n', 1, "NaN or Infinity"),
        ('{"id": "x", "id": "y", "engine": "vLLM", "measured": {}}\n', 1, 'the key "id" is written twice'),
        ('{"id": "x", "engine": "vLLM", "measured": {"weights": {"value": 1, "value": 2}}}\n', 1, '"value" is written'),
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


@pytest.mark.parametrize("command", ["validate", "calibrate"])
@pytest.mark.parametrize(
    "data, words",
    [
        (b"\x1f\x8b\x08\x00rest", "packed (gzip)"),
        (b"PK\x03\x04rest", "packed (zip)"),
        (b"\xef\xbb\xbf{}", "byte order mark"),
        ("{}".encode("utf-16"), "UTF-16"),
        ("{}".encode("utf-16-le"), "UTF-16"),
        (b'{"id": "\xe9"}\n', "it is not UTF-8 text"),
    ],
)
def test_a_file_that_is_no_plain_text_is_said_to_be_so(capienza, tmp_path, command, data, words):
    path = tmp_path / "cases.jsonl"
    path.write_bytes(data)
    shown = capienza(command, path)
    assert (shown.code, shown.out) == (3, "")
    assert words in shown.err


@pytest.mark.parametrize("command", ["validate", "calibrate"])
@pytest.mark.parametrize(
    "kind, words", [("pipe", "a pipe or a device"), ("folder", "a folder"), ("none", "no such file")]
)
def test_only_a_regular_file_is_opened(capienza, tmp_path, command, kind, words):
    path = tmp_path / "cases.jsonl"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    shown = capienza(command, path)
    assert (shown.code, shown.out) == (4, "")
    assert words in shown.err


def written(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_case_counts_once(capienza, tmp_path):
    path = written(tmp_path / "cases.jsonl", ROW, ROW | {"id": "other"}, ROW, ROW | {"gpu": "changed"})
    copy = written(tmp_path / "copy.jsonl", ROW)
    another = written(tmp_path / "another.jsonl", ROW | {"gpu": "another run"})
    data = json.loads(capienza("validate", path, copy, another, "--json").out)
    assert {group["n"] for group in data["groups"] if group["quantity"] != "none"} == {3}
    listed = [(row["file"], row["status"], row["reason"]) for row in data["rows"] if row["quantity"] == "none"]
    reason = "the id stands on line 1 of cases.jsonl already; a case counts once"
    names = ["cases.jsonl", "cases.jsonl", "copy.jsonl"]
    assert listed == [(name, "skipped", reason) for name in names]


def test_a_case_calibrates_once(capienza, tmp_path):
    twice = json.loads(capienza("calibrate", written(tmp_path / "cases.jsonl", ROW, ROW)).out)
    once = json.loads(capienza("calibrate", written(tmp_path / "cases.jsonl", ROW)).out)
    assert twice["kinds"] == once["kinds"] != []


@pytest.mark.parametrize(
    "key, value",
    [
        *[("gpu_memory_utilization", value) for value in (5, -0.5, 0, "0.9", True)],
        *[("max_num_seqs", value) for value in (0, -4, 1.5, "8")],
        *[("max_model_len", value) for value in (0, -10, "512")],
        *[("max_num_batched_tokens", value) for value in (0, -1)],
        *[("block_size", value) for value in (0, -16)],
        *[("dtype", value) for value in ("float12", "", 16, ["bfloat16"])],
        *[("tp", value) for value in (0, -1, 1.5)],
        ("enforce_eager", "yes"),
    ],
)
def test_a_value_that_no_run_has_is_never_a_silent_default(capienza, tmp_path, key, value):
    data = json.loads(capienza("validate", written(tmp_path / "cases.jsonl", ROW | {key: value}), "--json").out)
    assert data["rows"]
    for row in data["rows"]:
        assert row["status"] == "skipped"
        assert row["reason"].startswith(f"{key} is {json.dumps(value)}, which no run has; accepted: ")


@pytest.mark.parametrize(
    "changes, reason",
    [
        ({"flags": {"mem-fraction-static": 7}}, "flags.mem_fraction_static is 7"),
        ({"flags": {"gpu_memory_utilization": "0.9"}}, 'flags.gpu_memory_utilization is "0.9"'),
        ({"flags": {"batch": 0}}, "flags.batch is 0"),
        ({"lora": {"rank": -1}}, "lora.rank is -1"),
        ({"arch": ROW["arch"] | {"extra_params_m": {}}}, "arch.extra_params_m is {}"),
        ({"arch": ROW["arch"] | {"num_key_value_heads": 0}}, "num_key_value_heads"),
        ({"measured": ROW["measured"] | {"total_gpu_memory": {"value": 0, "unit_logged": "GiB"}}}, "a number above 0"),
        ({"measured": ROW["measured"] | {"total_gpu_memory": {"value": 8, "unit_logged": "lots"}}}, '"lots"'),
    ],
)
def test_so_is_one_inside_another(capienza, tmp_path, changes, reason):
    data = json.loads(capienza("validate", written(tmp_path / "cases.jsonl", ROW | changes), "--json").out)
    assert data["rows"]
    assert all(row["status"] == "skipped" and reason in row["reason"] for row in data["rows"])


@pytest.mark.parametrize("value", [None, "default .9"])
def test_an_option_that_was_left_is_no_wrong_value(capienza, tmp_path, value):
    changes = {"flags": {"mem_fraction_static": value}}
    data = json.loads(capienza("validate", written(tmp_path / "cases.jsonl", ROW | changes), "--json").out)
    assert "scored" in {row["status"] for row in data["rows"]}


@pytest.mark.parametrize(
    "figure, reason",
    [
        ({"value": 4.0, "unit_logged": "parsecs"}, 'the unit of measured.weights is "parsecs"; accepted: GiB'),
        ({"value": 4.0, "unit_logged": None}, "the unit of measured.weights is null"),
        ({"value": 4.0}, "the unit of measured.weights is null"),
        ({"value": 4.0, "unit_logged": "GiB", "true_unit": "x"}, 'the unit of measured.weights is "x"'),
        ({"value": 4.0, "unit_logged": " "}, "the unit of measured.weights is"),
        ({"value": 0, "unit_logged": "MiB"}, "measured.weights is 0: there is nothing to divide by"),
        ({"value": -4, "unit_logged": "MiB"}, "the value of measured.weights is -4"),
        ({"value": "4", "unit_logged": "MiB"}, 'the value of measured.weights is "4"'),
        (4, "measured.weights is 4; a figure is a value with its unit_logged"),
    ],
)
def test_a_figure_that_cannot_be_compared_is_listed(capienza, tmp_path, figure, reason):
    path = written(tmp_path / "cases.jsonl", ROW | {"measured": ROW["measured"] | {"weights": figure}})
    data = json.loads(capienza("validate", path, "--json").out)
    (row,) = [row for row in data["rows"] if row["quantity"] == "weights"]
    assert row["status"] == "skipped"
    assert row["reason"].startswith(reason)
    assert {row["status"] for row in data["rows"] if row["quantity"] != "weights"} == {"scored"}


@pytest.mark.parametrize("figure", [{"value": 1.0, "unit_logged": "parsecs"}, {"value": 0, "unit_logged": "GiB"}])
def test_a_pool_that_cannot_be_read_is_said(capienza, tmp_path, figure):
    path = written(tmp_path / "cases.jsonl", ROW | {"measured": ROW["measured"] | {"kv_cache": figure}})
    rows = {row["quantity"]: row for row in json.loads(capienza("validate", path, "--json").out)["rows"]}
    assert rows["gpu_blocks_from_pool"]["status"] == "skipped"
    assert "measured.kv_cache" in rows["gpu_blocks_from_pool"]["reason"]
    assert rows["gpu_blocks"]["status"] == "scored"


def test_a_training_case_without_a_reading_is_listed(capienza, tmp_path):
    row = {"id": "t", "framework": "own", "measured": []}
    (listed,) = json.loads(capienza("validate", written(tmp_path / "cases.jsonl", row), "--json").out)["rows"]
    assert listed["status"] == "skipped"


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
