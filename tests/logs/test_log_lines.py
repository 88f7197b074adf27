"""Bytes to lines, and what stands before a line's own words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capienza.logs.lines import MOST_REWRITES, PIECE_CHARACTERS, LineReader
from capienza.logs.prefix import taken_apart
from capienza.logs.said import Index, said, shape_of


def lines_of(*chunks: bytes) -> list[tuple[int, str]]:
    reader = LineReader()
    found = [line for chunk in chunks for line in reader.feed(chunk)]
    return [tuple(line) for line in [*found, *reader.close()]]


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\r\x1b\0\ufeff"), max_size=60), max_size=12))
def test_lines_are_those_between_line_feeds(texts):
    whole = "\n".join(texts)
    expected = list(enumerate(whole.split("\n"), 1))
    assert lines_of(whole.encode()) == (expected if expected[-1][1] else expected[:-1])


def test_a_character_cut_between_two_pieces_is_one():
    data = "è pieno\n".encode()
    assert lines_of(data[:1], data[1:]) == [(1, "è pieno")]


def test_invalid_bytes_do_not_end_a_log():
    assert lines_of(b"a \xff b\nc\n") == [(1, "a � b"), (2, "c")]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_logs_of_windows_shells(encoding):
    assert lines_of("out of memory\nend\n".encode(encoding)) == [(1, "out of memory"), (2, "end")]


def test_terminal_codes_and_holes_are_taken_out():
    assert lines_of(b"\x1b[1;31mERROR\x1b[0m\0\0 x\n") == [(1, "ERROR x")]


def test_a_progress_bar_is_its_rewrites():
    assert lines_of(b" 10%\r 20%\r 30%\n") == [(1, " 10%"), (1, " 20%"), (1, " 30%")]
    many = b"\r".join(b"%d%%" % number for number in range(10_000)) + b"\n"
    found = lines_of(many)
    assert len(found) <= MOST_REWRITES
    assert found[-1] == (1, "9999%")


def test_a_line_of_ten_megabytes_comes_in_pieces():
    reader = LineReader()
    for _ in range(10):
        for line in reader.feed(b"x" * 10**6):
            assert len(line.text) <= PIECE_CHARACTERS
        assert len(reader._kept) <= PIECE_CHARACTERS
    assert reader.count == 1


@pytest.mark.parametrize(
    ("text", "source", "words"),
    [
        ("[rank3]: Traceback", "rank3", "Traceback"),
        ("(EngineCore_DP0 pid=17) ERROR 01-02 03:04:05 [core.py:1] hot", "EngineCore_DP0 pid=17", "hot"),
        ("[1,3]<stderr>:boom", "1,3", "boom"),
        ("[2026-01-05 06:12:41 TP0] boom", "TP0", "boom"),
        ("plain words", "", "plain words"),
    ],
)
def test_the_process_that_wrote_a_line(text, source, words):
    assert taken_apart(text) == (source, words)


@given(
    st.lists(st.text("abcdef 12", min_size=1, max_size=12), min_size=1, max_size=8), st.text("abcdef 12", max_size=60)
)
def test_the_index_finds_what_a_search_for_each_anchor_finds(anchors, text):
    rows = [said(str(number), anchor) for number, anchor in enumerate(anchors) if anchor.strip() == anchor]
    found = {row.code for row in Index(rows).rows(text, shape_of(text))}
    assert found == {row.code for row in rows if any(anchor in text for anchor in row.anchors)}


@pytest.mark.parametrize(
    ("line", "texts"),
    [
        ('{"log":"step 1\\n","stream":"stderr"}', ["step 1"]),
        ('2025-05-05T10:00:00Z {"level":"warning","message":"low"}', ["WARNING: 2025-05-05T10:00:00Z low"]),
        ('[rank1]: {"msg":"one\\ntwo","exc_info":"three"}', ["[rank1]: one", "[rank1]: two", "[rank1]: three"]),
        ('{"level":"ERROR","fields":{"message":"shard failed"},"target":"launcher"}', ["shard failed"]),
        ('{"loss":0.25,"epoch":1}', ['{"loss":0.25,"epoch":1}']),
        ('sent {"message":"hi"}', ['sent {"message":"hi"}']),
        ('{"a":' * 5000 + "1" + "}" * 5000, None),
        ('{"message":"cut', ['{"message":"cut']),
    ],
)
def test_lines_that_a_logger_wrote_as_objects(line, texts):
    found = [text for _, text in lines_of(line.encode() + b"\n")]
    assert found == texts if texts is not None else "".join(found) == line
