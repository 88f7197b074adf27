"""Whatever stands in a name or a sheet is text in every form of output: it drives no terminal and opens nothing."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from capienza.canon import pretty
from capienza.report.blocks import Heading, Items, Paragraph, Table
from capienza.report.decide_data import _text as decision_text
from capienza.report.markdown import markdown
from capienza.report.plain import plain_text, visible

HOSTILE = {
    "formula": "=cmd|' /C calc'!A0",
    "formula by plus": "+1+1",
    "formula by minus": "-2+3",
    "formula by at": "@SUM(1+1)*cmd|' /C calc'!A0",
    "formula behind a tab": "\t=1+1",
    "tag": "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "entity": "&lt;b&gt;&#x202e;&#60;script&#62;",
    "link": "[pay here](https://example.org) ![x](https://example.org/x.png)",
    "bare address": "https://example.org/x www.example.org",
    "reference": "[x]: https://example.org\n[x]",
    "colour": "\x1b[31mred\x1b[0m",
    "clear the screen": "\x1b[2J\x1b[H",
    "C1 sequence": "\x9b31mred\x90q\x9c",
    "title of the window": "\x1b]0;admissible\x07",
    "erase backwards": "exclude\b\b\b\b\b\b\badmissible",
    "start of the line": "exclude\radmissible",
    "another line": "L4\nforged-offer  admissible",
    "odd line ends": "a\x0bb\x0cc\x1cd\x85e\u2028f\u2029g",
    "turned around": "\u202eelbissimda\u202c \u2066x\u2069",
    "no width": "ad\u200bmis\u2060sible\ufeff",
    "row of a table": "| a | b |",
    "heading": "# Decision",
    "list": "- item",
    "number": "1. item",
    "rule": "---",
    "code": "```\nx\n```",
    "emphasis": "**bold** _it_ ~~no~~ `x`",
    "formula of mathematics": "$\\alpha$",
    "markup of rich": "[bold red]x[/bold red] [link=https://example.org]y[/link]",
}
ANY = st.one_of(
    st.text(max_size=60), st.sampled_from(sorted(HOSTILE.values())), st.text("\x1b\n\r\t[]()<>&;#-=+.1 a|$")
)
SAFE_TOKENS = {
    "heading_open", "heading_close", "paragraph_open", "paragraph_close", "inline", "bullet_list_open",
    "bullet_list_close", "list_item_open", "list_item_close", "table_open", "table_close", "thead_open", "thead_close",
    "tbody_open", "tbody_close", "tr_open", "tr_close", "th_open", "th_close", "td_open", "td_close", "text",
    "text_special", "softbreak", "strong_open", "strong_close",
}  # fmt: skip


def document(text: str):
    return (
        Heading(text),
        Paragraph(text),
        Items((text,)),
        Table(columns=("name", "b"), rows=((text, "x"),), title=text),
    )


def tokens(text: str):
    parsed = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(markdown(document(text)))
    inner = [child for token in parsed for child in token.children or ()]
    return [token for token in (*parsed, *inner) if token.type != "text" or token.content]


def check_markdown(text: str) -> None:
    found = tokens(text)
    assert {token.type for token in found} <= SAFE_TOKENS
    kinds = [token.type for token in found]
    assert kinds.count("bullet_list_open") == kinds.count("list_item_open") == 1
    assert kinds.count("heading_open") == 1
    assert kinds.count("tr_open") == 2
    assert kinds.count("td_open") == 2
    assert kinds.count("strong_open") <= 1
    assert "://" not in markdown(document(text))
    assert markdown(document(text)).replace("\n", "").isprintable()


@pytest.mark.parametrize("name", HOSTILE)
def test_markdown_holds_text_alone(name: str) -> None:
    check_markdown(HOSTILE[name])


@given(ANY.filter(lambda text: bool(text.strip())))
def test_markdown_holds_text_alone_whatever_it_is(text: str) -> None:
    check_markdown(text)


@given(ANY.filter(bool))
def test_plain_text_has_only_its_own_lines(text: str) -> None:
    shown = plain_text(document(text))
    assert all(line.isprintable() for line in shown.split("\n"))
    assert shown.count("\n") == plain_text(document("x")).count("\n")
    assert visible(text).isprintable()


@given(ANY)
def test_json_means_the_same_and_shows_everything(text: str) -> None:
    for written in (pretty({"name": text}), decision_text({"name": text})):
        assert json.loads(written) == {"name": text}
        odd = [character for character in written if not character.isprintable() and character != "\n"]
        assert not [
            character for character in odd if character in "\x1b\x9b\x07\x08\r\u202e\u2066\u200b\u2028\ufeff\x7f"
        ]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_terminal_is_sent_text_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from rich.console import Console

    from capienza.cli import output

    stream = io.StringIO()
    plain = Console(file=stream, force_terminal=True, color_system=None, width=400, highlight=False)
    monkeypatch.setattr(output, "_console", lambda: plain)
    output.show_document(document(HOSTILE[name]))
    styles = ("\x1b[1m", "\x1b[1;4m", "\x1b[3m", "\x1b[0m", "\x1b[2m")
    shown = stream.getvalue()
    for style in styles:
        shown = shown.replace(style, "")
    assert all(line.isprintable() for line in shown.split("\n"))
    if "rich" in name:
        assert shown.count("[bold red]") == 5


@pytest.mark.parametrize("name", HOSTILE)
def test_every_command_shows_a_hostile_sheet_as_text(name: str, capienza, tmp_path) -> None:
    text = HOSTILE[name]
    offer = {
        "id": "a",
        "provider": "p",
        "gpu": "L4",
        "memory": text,
        "cards": 1,
        "days": 1,
        "total": "5 USD",
        "notes": text,
    }
    offers = tmp_path / "offers.json"
    offers.write_text(json.dumps([offer]))
    for form in ("human", "md", "json"):
        for command in ("list", "check"):
            shown = capienza("offers", command, offers, "--format", form)
            assert shown.code in (0, 3)
            assert all(line.isprintable() for line in (shown.out + shown.err).split("\n")), form
