"""The positioned YAML reader: YAML 1.2 values, places, refusals, limits."""

import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from capienza import yamlmarks
from capienza.errors import InputErrors, UnreachableError
from capienza.yamlmarks import Limits, Node


@pytest.fixture(params=["libyaml", "python"])
def parser(request, monkeypatch):
    """Both of PyYAML's parsers: the second one runs where the wheel has no libyaml."""
    if request.param == "python":
        monkeypatch.delattr(yaml, "CSafeLoader")
    elif not yaml.__with_libyaml__:
        pytest.skip("PyYAML has no libyaml here")
    return request.param


def at(node: Node | None, *steps: str | int) -> Node:
    """The node below `node` at the end of some keys and indices."""
    for step in steps:
        node = node.value[step]  # type: ignore[index, assignment, union-attr]
    assert node is not None
    return node


def plain(node: Node) -> Any:
    if isinstance(node.value, dict):
        return {key: plain(child) for key, child in node.value.items()}
    return [plain(child) for child in node.value] if isinstance(node.value, list) else node.value


def problems(text: str | bytes, limits: Limits = yamlmarks.DEFAULT_LIMITS) -> list[tuple[str, int | None, int | None]]:
    reading = yamlmarks.read(text, "f.yaml", limits)
    return [(p.message.code.removeprefix("yamlmarks."), p.place.line, p.place.column) for p in reading.problems]


SCALARS = {
    "no": "no",
    "on": "on",
    "y": "y",
    "12:30": "12:30",
    "2026-12-07": "2026-12-07",
    "1_000": "1_000",
    "0b11": "0b11",
    "1e": "1e",
    ".": ".",
    "nan": "nan",
    "inf": "inf",
    "=": "=",
    "<<": "<<",
    "0.11.2": "0.11.2",
    "'7'": "7",
    '"true"': "true",
    "true": True,
    "False": False,
    "tRUE": "tRUE",
    "null": None,
    "~": None,
    "010": 10,
    "-7": -7,
    "+7": 7,
    "0x1F": 31,
    "0o17": 15,
    "1e3": Decimal(1000),
    "7e9": Decimal(7_000_000_000),
    "16E+9": Decimal(16_000_000_000),
    "0.90": Decimal("0.90"),
    "-.5": Decimal("-0.5"),
    "5.": Decimal(5),
    "9" * 40: int("9" * 40),
}


@pytest.mark.parametrize("text", SCALARS)
def test_an_unquoted_word_means_what_yaml_1_2_says(text, parser):
    node = at(yamlmarks.load(f"k: {text}"), "k")
    assert (node.value, type(node.value)) == (SCALARS[text], type(SCALARS[text]))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\nb: 2\na: 3\n", [("duplicate-key", 3, 1)]),
        ("a: {b: 1, b: {c: 2}, d: 3}", [("duplicate-key", 1, 11)]),
        ("a: &x 1\nb: *x\n", [("alias", 1, 4), ("alias", 2, 4)]),
        ("a: !!str 7\nb: !mine {c: 1}\n", [("tag", 1, 4), ("tag", 2, 4)]),
        ("a: !!python/object/apply:os.system [x]", [("tag", 1, 4)]),
        ("1: a\nnull: b\ntrue: c\n", [("key-not-text", 1, 1), ("key-not-text", 2, 1), ("key-not-text", 3, 1)]),
        ("? [a, b]\n: c\n", [("key-not-text", 1, 3)]),
        ("a: .inf\nb: -.INF\nc: .nan\n", [("not-finite", 1, 4), ("not-finite", 2, 4), ("not-finite", 3, 4)]),
        ("a: 1e41\nb: 1e-999999999\nc: " + "1" * 41, [("number-too-long", line, 4) for line in (1, 2, 3)]),
        ("a: 0x" + "f" * 40, [("number-too-long", 1, 4)]),
        ("a: 1\n---\nb: 2\n", [("several-documents", 2, 1)]),
        ("%YAML 1.1\n---\na: 1\n", [("directive", 1, 1)]),
        ("", [("empty", None, None)]),
        ("# only a comment\n", [("empty", None, None)]),
        (b"\xff\xfea\x00", [("not-utf8", 1, 1)]),
        (b"a: 1\n  b\xe0: 2", [("not-utf8", 2, 4)]),
        ("a: 1\nb: x\x00", [("control-character", 2, 5)]),
        ("a: \x1b[31m", [("control-character", 1, 4)]),
        ("a: b\u2028c: d", [("control-character", 1, 5)]),
        ("a: \ufeffb", [("control-character", 1, 4)]),
        ("a: \ud800", [("control-character", 1, 4)]),
        ('a: "\\0"\n"\\e": b\n', [("control-character", 1, 4), ("control-character", 2, 1)]),
        ("a:\n\tb: 1\n", [("tab", 2, 1)]),
        ("a: b: c\n", [("syntax", 1, 5)]),
    ],
)
def test_what_is_refused_and_where(text, expected, parser):
    assert problems(text) == expected


@pytest.mark.parametrize("text", ["a: [1, 2", 'a: "b', "a: }", "a: @b", "a: `b", "- a\nb: c", "a: *", "{a: b}}"])
def test_broken_yaml_is_one_error_with_a_place(text, parser):
    ((code, line, _),) = problems(text)
    assert code == "syntax"
    assert line is not None


def test_all_the_problems_of_form_come_together_and_in_order():
    with pytest.raises(InputErrors) as caught:
        yamlmarks.load("a: &x 1\na: .nan\n2: b\n", "f.yaml")
    assert str(caught.value).splitlines() == [
        "f.yaml:1:4: anchors and aliases (x) are not accepted",
        "f.yaml:2:1: a is already written on line 1",
        "f.yaml:2:4: expected a finite number, got .nan",
        "f.yaml:3:1: expected a key that is text, got 2",
    ]


def test_places_count_characters_from_one_and_skip_the_byte_order_mark(parser):
    root = yamlmarks.load("\ufeffè: {😀: x, k: [1, 22]}\n".encode())
    inner = at(root, "è")
    assert (inner.line, inner.column, inner.key_line, inner.key_column) == (1, 4, 1, 1)
    assert (at(inner, "😀").column, at(inner, "k").key_column) == (8, 11)
    assert [at(inner, "k", index).column for index in (0, 1)] == [15, 18]


def test_windows_line_ends_and_an_explicit_start_change_nothing(parser):
    assert plain(yamlmarks.load("---\r\na: 1\r\nb: |\r\n  x\r\n  y\r\n...\r\n")) == {"a": 1, "b": "x\ny\n"}


WRITTEN = st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="\u2028\u2029\ufeff\ufffe\uffff"))
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**18), 10**18) | WRITTEN,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WRITTEN.filter(bool), inner, max_size=4),
    max_leaves=12,
)


@given(JSON_VALUES)
def test_json_is_yaml_with_the_same_meaning(value):
    """The oracle is the JSON module: quoted text, numbers and nesting survive."""
    if value != "":
        assert plain(yamlmarks.load(json.dumps({"v": value}, ensure_ascii=False)))["v"] == value


@given(JSON_VALUES)
def test_every_place_is_the_one_that_the_composer_of_pyyaml_gives(value):
    text = yaml.safe_dump({"v": value}, allow_unicode=True)

    def compare(ours: Node, theirs: yaml.Node) -> None:
        assert (ours.line, ours.column) == (theirs.start_mark.line + 1, theirs.start_mark.column + 1)
        if isinstance(theirs, yaml.MappingNode):
            for key, child in theirs.value:
                mine = at(ours, key.value)
                assert (mine.key_line, mine.key_column) == (key.start_mark.line + 1, key.start_mark.column + 1)
                compare(mine, child)
        elif isinstance(theirs, yaml.SequenceNode):
            for index, child in enumerate(theirs.value):
                compare(at(ours, index), child)

    reading = yamlmarks.read(text)
    if reading.root and not reading.problems:
        compare(reading.root, yaml.compose(text))  # type: ignore[arg-type]
    else:
        assert {p.message.code for p in reading.problems} <= {"yamlmarks.alias", "yamlmarks.key-not-text"}


@given(st.binary(max_size=300) | st.text(max_size=300))
def test_anything_is_a_tree_or_problems(data):
    reading = yamlmarks.read(data)
    assert reading.root is not None or reading.problems


M = yamlmarks.DEFAULT_LIMITS.max_bytes
HOSTILE = {
    "far too large": "a: 1\n" * (20 * 1024**2 // 5),
    "deep flow": "[" * M,
    "deep flow mappings": "{a: " * (M // 4),
    "deep block": "- " * (M // 2),
    "explicit keys": "? " * (M // 2),
    "many values": "[" + "a," * (M // 2 - 2) + "]",
    "many lists": "[" + "[]," * (M // 3 - 2) + "]",
    "many numbers": "[" + "1e5," * (M // 4 - 2) + "]",
    "many keys": "".join(f"a{i}: 1\n" for i in range(300_000)),
    "one key, many times": "a: 1\n" * (M // 5),
    "billion laughs": "a: &a [x,x]\n" + "".join(f"b{i}: &b{i} [*a,*a]\n" for i in range(10_000)),
    "anchors": "[" + "&a b," * (M // 7) + "]",
    "documents": "---\n" * (M // 4),
    "directives": "%YAML 1.2\n" * (M // 10),
    "endless text": 'a: "' + "\n" * (M - 5),
    "endless number": "1" * (M - 4),
    "endless key": "x" * (M - 4) + ": 1",
    "colons": "a:" * (M // 2),
}


MEASURE = """
import resource, sys
from capienza import yamlmarks
data = sys.stdin.buffer.read()
yamlmarks.read("a: 1")
idle = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
reading = yamlmarks.read(data)
print(len(reading.problems), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - idle)
"""


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_ends_in_an_error_within_64_mb(name):
    if sys.platform != "linux":
        pytest.skip("the kernel of Linux counts this figure in KiB, others do not")
    done = subprocess.run(
        [sys.executable, "-c", MEASURE], input=HOSTILE[name].encode(), capture_output=True, check=True
    )
    found, grown_kib = map(int, done.stdout.split())
    assert found > 0
    assert grown_kib < 64 * 1024


def test_limits_are_those_of_the_caller():
    limits = Limits(max_bytes=100, max_nodes=5, max_depth=2)
    assert problems("a: " + "x" * 98, limits) == [("too-large", None, None)]
    assert problems("[1, 2, 3, 4]", limits) == []
    assert problems("[1, 2, 3, 4, 5]", limits) == [("too-many-values", 1, 14)]
    assert problems("[[1]]", limits) == []
    assert problems("[[[1]]]", limits) == [("too-deep", 1, 3)]


def test_a_thousand_offers_stay_far_below_the_default_limits():
    row = "- {id: a, provider: b, gpu: c, memory: 24 GB, lots: 1, cards: 1, days: 3, total: 47.14 USD, x: {y: z}}\n"
    root = yamlmarks.load(row * 1000)
    assert (at(root, 999).line, at(root, 999, "total").value) == (1000, "47.14 USD")


def test_a_file_is_read_up_to_its_limit(tmp_path: Path):
    file = tmp_path / "a.yaml"
    file.write_text("abc")
    assert yamlmarks.read_bytes(file, 3) == b"abc"
    with pytest.raises(Exception, match="larger than 0 KiB"):
        yamlmarks.read_bytes(file, 2)


@pytest.mark.parametrize(
    ("name", "code"),
    [("gone", "not-found"), (".", "not-a-file"), ("a.yaml/b", "unreadable-file"), ("\0", "unreadable-file")],
)
def test_a_file_that_cannot_be_opened_says_why(name, code, tmp_path: Path):
    (tmp_path / "a.yaml").write_text("abc")
    with pytest.raises(UnreachableError) as caught:
        yamlmarks.read_bytes(tmp_path / name, 10)
    assert caught.value.message.code == f"yamlmarks.{code}"
