"""Reading a corpus: what is accepted, and what is said of the rest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from capienza.errors import CapienzaError, InputErrors
from capienza.quality.corpus import read_corpus

GOOD = {"id": "q1", "prompt": "Capital of Italy?", "expected": "Rome"}


def _written(folder: Path, *rows: object) -> str:
    path = folder / "corpus.jsonl"
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    return str(path)


def test_every_form_of_an_item(tmp_path: Path) -> None:
    chat = {"id": 2, "cluster": "doc", "messages": [{"role": "user", "content": "2 + 2?"}], "expected": [4, "four"]}
    choice = {
        "id": "c",
        "cluster": "doc",
        "prompt": "A or B?",
        "choices": ["A", "B"],
        "expected": "B",
        "topic": "letters",
    }
    corpus = read_corpus(_written(tmp_path, GOOD, "", chat, choice))
    assert [item.id for item in corpus.items] == ["q1", "2", "c"]
    assert [item.cluster for item in corpus.items] == ["q1", "doc", "doc"]
    assert corpus.items[1].expected == ("4", "four")
    assert (corpus.clusters, corpus.unread_keys) == (2, ("topic",))
    assert len(corpus.sha256) == 64


@pytest.mark.parametrize(
    "row, code, key",
    [
        ({"prompt": "x"}, "quality.item-without-key", None),
        ({"id": "a"}, "quality.item-without-key", None),
        ({"id": "", "prompt": "x"}, "quality.item-odd-value", "id"),
        ({"id": True, "prompt": "x"}, "quality.item-odd-value", "id"),
        ({"id": "a" * 201, "prompt": "x"}, "quality.item-odd-value", "id"),
        ({"id": "a", "prompt": " "}, "quality.item-odd-value", "prompt"),
        ({"id": "a", "prompt": ["x"]}, "quality.item-odd-value", "prompt"),
        ({"id": "a", "prompt": "x", "messages": []}, "quality.item-prompt-and-messages", "messages"),
        ({"id": "a", "messages": []}, "quality.item-odd-value", "messages"),
        ({"id": "a", "messages": [{"role": "me", "content": "x"}]}, "quality.item-odd-value", "messages"),
        ({"id": "a", "messages": [{"role": "user", "content": [1]}]}, "quality.item-odd-value", "messages"),
        ({"id": "a", "prompt": "x", "expected": []}, "quality.item-odd-value", "expected"),
        ({"id": "a", "prompt": "x", "expected": {"a": 1}}, "quality.item-odd-value", "expected"),
        ({"id": "a", "prompt": "x", "choices": ["A"]}, "quality.item-odd-value", "choices"),
        ({"id": "a", "prompt": "x", "choices": ["A", "a"]}, "quality.item-odd-value", "choices"),
        ({"id": "a", "prompt": "x", "schema": "no"}, "quality.item-odd-value", "schema"),
        ({"id": "q1", "prompt": "again"}, "quality.item-twice", None),
        ("[1]", "jsonlines.not-an-object", None),
        ('{"id": "a", "id": "b", "prompt": "x"}', "jsonlines.repeated-key", None),
        ('{"id": "a", "prompt": "x"', "jsonlines.not-json", None),
    ],
)
def test_a_bad_item_is_named_with_its_line(tmp_path: Path, row: object, code: str, key: str | None) -> None:
    path = _written(tmp_path, GOOD, row)
    with pytest.raises(CapienzaError) as caught:
        read_corpus(path)
    assert caught.value.message.code == code
    assert (caught.value.place.file, caught.value.place.line, caught.value.place.key) == (path, 2, key)


def test_several_bad_items_are_said_together(tmp_path: Path) -> None:
    with pytest.raises(InputErrors) as caught:
        read_corpus(_written(tmp_path, {"id": "a"}, GOOD, {"prompt": "x"}))
    assert [problem.place.line for problem in caught.value.problems] == [1, 3]


def test_a_key_that_is_nearly_right_is_suggested(tmp_path: Path) -> None:
    with pytest.raises(InputErrors) as caught:
        read_corpus(_written(tmp_path, {"id": "a", "promt": "x"}))
    assert "prompt (promt?)" in str(caught.value)


@pytest.mark.parametrize(
    "content, code",
    [
        (b"", "quality.empty-corpus"),
        (b"\n \n", "quality.empty-corpus"),
        (b"\x1f\x8b\x08\x00 packed", "jsonlines.packed"),
        (b"\xff\xfe{\x00}\x00", "jsonlines.other-text"),
        (b'{"id": "a", "prompt": "\xff"}\n', "jsonlines.not-json"),
        (b"[" * 100_000, "jsonlines.not-json"),
    ],
)
def test_a_file_that_is_no_corpus(tmp_path: Path, content: bytes, code: str) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_bytes(content)
    with pytest.raises(CapienzaError) as caught:
        read_corpus(str(path))
    assert caught.value.message.code == code


def test_an_endless_line_is_refused_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("capienza.quality.corpus.LINE_BYTES", 1_000)
    path = tmp_path / "corpus.jsonl"
    path.write_bytes(b'{"id": "a", "prompt": "' + b"x" * 100_000)
    with pytest.raises(CapienzaError) as caught:
        read_corpus(str(path))
    assert caught.value.message.code == "jsonlines.too-long"
