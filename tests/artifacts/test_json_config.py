"""Bounded JSON and `config.json`."""

import json

import pytest
from artifact_files import BytesSource
from hypothesis import given
from hypothesis import strategies as st

from capienza.artifacts.config import read_config
from capienza.artifacts.json_text import MAX_DEPTH, MAX_DOCUMENT_BYTES, MAX_VALUES, read_json
from capienza.errors import InputError, UnreachableError


def read(text: str | bytes) -> dict:
    return read_json(BytesSource(text if isinstance(text, bytes) else text.encode(), "config.json"))


HOSTILE = [
    ("too-large", " " * (MAX_DOCUMENT_BYTES + 1), ""),
    ("too-many-values", '{"a": [' + "1," * MAX_VALUES + "1]}", ""),
    ("too-many-values", "[" * (MAX_VALUES + 1), ""),
    ("too-many-values", '""' * 2 * (MAX_VALUES + 1), ""),
    ("too-deep", '{"a":' * (MAX_DEPTH + 1) + "1" + "}" * (MAX_DEPTH + 1), "1"),
    ("too-deep", '{"a":\n' + "[" * 100_000, "2"),
    ("not-valid", "", "1:1"),
    ("not-valid", '{"a": 1', "1:8"),
    ("not-valid", '{"a": 1,\n "b": }', "2:7"),
    ("not-valid", '{"a": 1} {}', "1:10"),
    ("not-valid", "{'a': 1}", "1:2"),
    ("not-valid", '\ufeff{"a": 1}', "1:1"),
    ("not-valid", b'{"a":\n "\xff"}', "2"),
    ("not-valid", '{"a": 1' + "0" * 5000 + "}", ""),
    ("not-valid", '{"a": "\\', "1:7"),
    ("not-valid", '{"a": "' + '\\"' * 200_000, "1:7"),
    ("not-valid", '{"a": "' + '\\"' * 200_000 + "\\", "1:7"),
    ("not-an-object", "[]", ""),
    ("not-an-object", "null", ""),
    ("not-an-object", "3", ""),
    ("not-an-object", '"{}"', ""),
    ("duplicate-key", '{"a": 1, "b": 2, "a": 1}', "a"),
    ("duplicate-key", '{"a": {"x": 1, "\\u0078": 2}}', "x"),
    ("duplicate-key", "{" + ",".join(f'"{number}":1' for number in range(70_000)) + ',"69999":1}', "69999"),
    ("bad-number", '{"a": {"b": [1, NaN]}}', "a.b[1]"),
    ("bad-number", '{"a": Infinity}', "a"),
    ("bad-number", '{"a": -Infinity}', "a"),
    ("bad-number", '{"a": 1e999}', "a"),
    ("bad-number", '{"a": 18446744073709551616}', "a"),
    ("bad-number", '{"text_config": {"rope": {"factor": -1' + "0" * 400 + "}}}", "text_config.rope.factor"),
    ("bad-text", '{"a": {"b": "\\ud800"}}', "a.b"),
    ("bad-text", '{"\\udc00": 1}', ""),
]


@pytest.mark.parametrize("code, text, place", HOSTILE, ids=lambda value: str(value)[:24])
def test_refused_with_file_and_place(code, text, place):
    with pytest.raises(InputError) as caught:
        read(text)
    error = caught.value
    assert error.message.code == f"artifacts.json-{code}"
    assert error.place.file == "config.json"
    spot = str(error.place).removeprefix("config.json").strip(": ")
    assert spot.startswith(place)
    str(error).encode()


@pytest.mark.parametrize(
    "text", ['{"\\u001b\\n": {"a": NaN}}', '{"\\ud800": 1, "\\ud800": 1}', '{"%s": NaN}' % ("k" * 10**6)]
)
def test_a_hostile_key_is_shown_on_one_short_line(text):
    with pytest.raises(InputError) as caught:
        read(text)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500


def test_brackets_inside_texts_are_no_depth():
    assert read(json.dumps({"template": "[[{{" * 100 + '\\"'})) == {"template": "[[{{" * 100 + '\\"'}


@given(
    st.dictionaries(
        st.text(max_size=5),
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers(-(2**63), 2**64 - 1)
            | st.floats(allow_nan=False, allow_infinity=False)
            | st.text(),
            lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
            max_leaves=12,
        ),
        max_size=6,
    ),
    st.booleans(),
)
def test_any_object_reads_back(value, escaped):
    assert read(json.dumps(value, ensure_ascii=escaped)) == value


@given(st.text(alphabet='{}[]",:\\tu0d8ru1 -.eN\n', max_size=60))
def test_reads_what_json_reads_or_refuses(text):
    try:
        ours = read(text)
    except InputError:
        return
    assert ours == json.loads(text)


def write(folder, name, value):
    (folder / name).write_text(json.dumps(value))
    return folder / name


def test_config_is_kept_as_written(tmp_path):
    config = {"model_type": "x", "text_config": {"hidden_size": 8}, "quantization_config": {"bits": 4}, "n": None}
    path = write(tmp_path, "config.json", config)
    write(tmp_path, "quantize_config.json", {"bits": 8})
    assert read_config(path) == config
    assert read_config(tmp_path) == config


@pytest.mark.parametrize(
    "name, content, expected",
    [
        ("quantize_config.json", {"bits": 4}, {"quant_method": "gptq", "bits": 4}),
        ("quantize_config.json", {"bits": 4, "quant_method": "awq"}, {"quant_method": "awq", "bits": 4}),
        (
            "hf_quant_config.json",
            {"quantization": {"quant_algo": "FP8"}},
            {"quant_method": "modelopt", "quantization": {"quant_algo": "FP8"}},
        ),
    ],
)
def test_quantisation_file_beside_the_config(tmp_path, name, content, expected):
    write(tmp_path, "config.json", {"model_type": "x"})
    write(tmp_path, name, content)
    assert read_config(tmp_path)["quantization_config"] == expected


def test_a_damaged_quantisation_file_is_not_ignored(tmp_path):
    write(tmp_path, "config.json", {})
    (tmp_path / "quantize_config.json").write_text("{")
    with pytest.raises(InputError) as caught:
        read_config(tmp_path)
    assert str(tmp_path / "quantize_config.json") in str(caught.value)


def test_a_missing_config_is_unreachable(tmp_path):
    with pytest.raises(UnreachableError) as caught:
        read_config(tmp_path / "config.json")
    assert caught.value.exit_code == 4
