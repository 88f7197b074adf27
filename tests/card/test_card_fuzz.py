"""Whatever happens to a card file, the answer is a card or its problems."""

import json
from pathlib import Path

from card_cases import plain
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from capienza import canon, yamlmarks
from capienza.card.load import parse_card
from capienza.card.model import Card
from capienza.card.schema import json_schema
from capienza.errors import InputErrors

CARDS = sorted((Path(__file__).parents[2] / "examples" / "cards").glob("*.yaml"))
TEXTS = [path.read_text() for path in CARDS]

WORDS = """
none null ~ true no .inf -.nan 1e40 -1e-40 0 -0 0e0 8k 6GiB 300USD [] {} [[]] {a:} *a &a !!int '' "" | > - ? : # % @ `
0x10 0o7 2026-12-07 2026-12-07T00:00Z 9998-12-31 UTC Europe/Rome ../.. ~/x 1e-40 9e15 {a,b} {prompt:1} "\\0" a,b
"""
JSON = st.recursive(st.integers() | st.text(max_size=5), lambda x: st.lists(x) | st.dictionaries(st.text(), x))
SCALARS = st.one_of(
    st.text(max_size=20),
    st.integers().map(str),
    st.floats().map(str),
    st.sampled_from(WORDS.split()),
    JSON.map(json.dumps),
)
SCHEMA = Draft202012Validator(json_schema())


def settled(data: str | bytes) -> None:
    """A card that serialises and that editors accept, or problems that each say something and come in order."""
    try:
        card = parse_card(data, "f.yaml")
    except InputErrors as errors:
        rows, places = errors.as_dict(), [(p.place.line or 0, p.place.column or 0) for p in errors.problems]
    else:
        assert isinstance(card, Card)
        assert canon.canonical(card)
        SCHEMA.validate(plain(yamlmarks.load(data)))
        return
    assert rows
    assert all(row["message"] and row["hint"] for row in rows)
    assert places == sorted(places)


@given(st.sampled_from(TEXTS), st.data())
def test_flipped_bytes(text, data):
    raw = bytearray(text.encode())
    for position in data.draw(st.lists(st.integers(0, len(raw) - 1), min_size=1, max_size=4)):
        raw[position] ^= data.draw(st.integers(1, 255))
    settled(bytes(raw))


@given(st.sampled_from(TEXTS), st.data())
def test_lines_deleted_doubled_or_moved(text, data):
    lines = text.splitlines(keepends=True)
    chosen = data.draw(st.lists(st.sampled_from(lines), max_size=len(lines) * 2))
    settled("".join(chosen))


@given(st.sampled_from(TEXTS), SCALARS, st.data())
@example(TEXTS[0], "2", None)
def test_a_value_replaced_by_anything(text, value, data):
    keys = [i for i, character in enumerate(text) if character == ":"]
    start = data.draw(st.sampled_from(keys)) + 1 if data else keys[0] + 1
    end = min((found for mark in ",}\n" if (found := text.find(mark, start)) >= 0), default=len(text))
    settled(f"{text[:start]} {value}{text[end:]}")


@given(st.sampled_from(TEXTS), st.text(max_size=12), st.data())
def test_a_key_replaced_by_anything(text, key, data):
    places = [i for i, character in enumerate(text) if character == ":"]
    end = data.draw(st.sampled_from(places))
    start = max(text.rfind(mark, 0, end) for mark in "\n{ ,") + 1
    settled(f"{text[:start]}{key}{text[end:]}")


@given(st.text(max_size=400))
def test_any_text(text):
    settled(text)
