"""Documents as text and Markdown: complete, aligned, and no content can act on the reader."""

from hypothesis import given
from hypothesis import strategies as st

from capienza.errors import Template
from capienza.i18n.translator import speaker
from capienza.ledger.ledger import Total
from capienza.report.blocks import Heading, Items, Paragraph, Table
from capienza.report.markdown import markdown
from capienza.report.plain import plain_text, visible
from capienza.report.size import total_cells
from capienza.units import GIB, Range

TABLE = Table(columns=("name", "size"), rows=(("a", "10"), ("long name", "9")), numeric=(1,), title="T")


def test_plain_tables_are_aligned_and_never_cut():
    assert plain_text((TABLE,)).splitlines() == [
        "T",
        "name       size",
        "---------  ----",
        "a            10",
        "long name     9",
    ]


def test_markdown_tables_keep_their_alignment():
    text = markdown((Heading("H", 1), TABLE, Items(("one", "two")), Paragraph("p")))
    assert text.startswith("# H\n\n**T**\n\n| name | size |\n| --- | ---: |\n| a | 10 |")
    assert text.endswith("- one\n- two\n\np\n")


@given(st.text(max_size=40))
def test_no_cell_breaks_its_row_or_opens_a_tag(cell):
    text = markdown((Table(columns=("a",), rows=((cell,),)),))
    assert len(text.splitlines()) >= 3
    row = text.split("\n")[2]
    assert text == f"| a |\n| --- |\n{row}\n"
    for mark in "<>|`*[]":
        assert row[2:-2].count(mark) == row[2:-2].count(f"\\{mark}")


@given(st.text(max_size=40))
def test_control_characters_are_shown_and_not_sent(text):
    assert all(character.isprintable() or character == "\n" for character in visible(text))


def test_an_escape_sequence_does_not_reach_the_terminal():
    assert visible("\x1b[31mred") == "\\x1b[31mred"


def test_a_total_that_lacks_an_entry_reads_at_least():
    say = speaker("en")
    assert total_cells(Total(Range.exact(GIB)), say) == ("1.000 GiB",) * 3
    assert total_cells(Total(Range.exact(GIB), ("x",)), say) == ("at least 1.000 GiB",) * 3


def test_messages_are_spoken_with_nested_messages_and_sizes():
    inner = Template("test.inner", "inner {size_bytes}")(size_bytes=GIB)
    outer = Template("test.outer", "outer: {what}")(what=inner)
    assert str(outer) == "outer: inner 1.00 GiB"
    assert speaker("it").message(outer) == "outer: inner 1,00 GiB"


def test_what_cannot_be_seen_is_shown_in_markdown_too():
    text = markdown((Table(columns=("a",), rows=(("RTX\u202egnp\u200b",),)),))
    assert "\u202e" not in text
    assert "\\\\u202egnp\\\\u200b" in text
