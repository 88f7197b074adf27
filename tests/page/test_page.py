"""The document of a decision: complete, bounded, the same every time, and inert whatever it is given."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from decimal import Decimal
from functools import partial
from html.parser import HTMLParser
from pathlib import Path

import pytest
from decide_world import change, make_card, make_offer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from page_world import GOOD_ADDRESS, HOSTILE, decided_on, dossier_on, offers_named, states

from capienza.api.signing import decision_document
from capienza.decide.cost import TAX_UNSTATED, Cost, CostPart
from capienza.i18n.translator import speaker
from capienza.report.blocks import Heading, Lines, Link, Mark, Table, flat
from capienza.report.html import html
from capienza.report.page import document_text
from capienza.report.signing import signing_document
from capienza.units import Money

PAGE_TAGS = """html head meta link title style body a header p h1 h2 h3 nav ol li main section div table caption thead
tbody tr th td ul span wbr figure figcaption i dl dt dd footer"""
SVG_TAGS = "svg desc g rect path line text clippath defs"
ALLOWED = {*PAGE_TAGS.split(), *SVG_TAGS.split()}


class Page(HTMLParser):
    """What a browser would make of a page: tags, attributes, ids, addresses, text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data):
        self.text += data

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.attributes if key == name]


@pytest.fixture(scope="module")
def worlds():
    return states()


def parts(document):
    """Every part of every text of a document."""
    for block in document:
        texts = []
        match block:
            case Table(rows=rows):
                texts = [
                    text for row in rows for cell in row for text in (cell.lines if isinstance(cell, Lines) else [cell])
                ]
            case Heading():
                pass
            case _:
                texts = [*getattr(block, "items", ()), getattr(block, "text", "")]
        for text in texts:
            yield from (text,) if isinstance(text, str) else text


def anchors(document) -> list[str]:
    found = []
    for block in document:
        found += [name for name in getattr(block, "anchors", ()) if name]
        found += [block.anchor] if isinstance(block, Heading) and block.anchor else []
    return found


@pytest.mark.parametrize("language", ["en", "it"])
@pytest.mark.parametrize("name", ["selected", "nothing", "excluded", "waived", "hostile", "unpredicted"])
def test_every_mark_leads_to_one_place(worlds, name, language):
    document = signing_document(worlds[name], speaker(language))
    known = anchors(document)
    assert len(known) == len(set(known))
    pointed = {part.anchor for part in parts(document) if isinstance(part, Mark | Link)}
    assert pointed
    assert pointed <= set(known)


def test_every_record_and_document_cited_is_in_the_appendix_in_full(worlds):
    for dossier in worlds.values():
        document = signing_document(dossier, speaker("en"))
        appendix = document[next(i for i, b in enumerate(document) if getattr(b, "anchor", "") == "evidence") :]
        text = "\n".join(
            flat(cell) for block in appendix if isinstance(block, Table) for row in block.rows for cell in row
        )
        for detail in dossier.in_full:
            for verdict in detail.decision.criteria:
                for reference in verdict.evidence:
                    assert reference.sha256 in text


def tables(document, title: str) -> list[Table]:
    return [block for block in document if isinstance(block, Table) and title in block.title]


def test_every_figure_of_the_memory_table_leads_to_its_calculation(worlds):
    (table,) = tables(signing_document(worlds["waived"], speaker("en")), "memory of gpu:0")
    for row in table.rows:
        for cell in row[1:5]:
            assert isinstance(cell, tuple)
            assert isinstance(cell[0], Link)
            assert cell[0].anchor == "k1"


def test_a_waiver_is_named_before_what_it_lets_pass(worlds):
    text = document_text(worlds["waived"], "md", "en")
    assert "waived by A. Engineer" in text[: text.index("mandatory criteria")]
    assert "admissible (waived)" in text


def test_the_same_decision_gives_the_same_bytes(worlds):
    for form in ("md", "html"):
        first = decision_document(decided_on(offers=offers_named("a", "b")), form, "it")
        assert decision_document(decided_on(offers=offers_named("a", "b")), form, "it") == first


def test_the_same_decision_gives_the_same_bytes_in_another_process():
    script = (
        "import sys\nsys.path[:0] = sys.argv[1:]\nfrom page_world import decided_on, offers_named\n"
        "from capienza.api.signing import decision_document\nimport hashlib\n"
        "print(hashlib.sha256(decision_document(decided_on(offers=offers_named('a', 'b'))).encode()).hexdigest())"
    )
    here = Path(__file__).parent
    found = {
        subprocess.run(
            [sys.executable, "-c", script, str(here), str(here.parent / "decide")],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed, "TZ": zone},
        ).stdout
        for seed, zone in (("1", "UTC"), ("2", "Asia/Tokyo"))
    }
    assert len(found) == 1


@pytest.mark.parametrize("language", ["en", "it"])
def test_a_page_holds_nothing_that_acts_or_reaches_out(worlds, language):
    for dossier in worlds.values():
        page = Page(document_text(dossier, "html", language))
        assert set(page.tags) <= ALLOWED
        assert not [name for name, _ in page.attributes if name.startswith("on") or name in ("src", "srcset", "action")]
        assert {value for value in page.values("href") if not value.startswith("#")} <= {"data:,", GOOD_ADDRESS}
        assert not [value for name, value in page.attributes if name != "xmlns" and "url(http" in value]
        assert page.values("lang") == [language]
        assert len(page.values("id")) == len(set(page.values("id")))
        assert page.tags.count("h1") == 1


def test_hostile_words_are_shown_and_not_obeyed(worlds):
    text = document_text(worlds["hostile"], "html", "en")
    page = Page(text)
    assert "alert(1)" in page.text
    assert "{{ 7 * 7 }}" in page.text.replace("\n", "")
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert GOOD_ADDRESS in page.values("href")
    markdown = document_text(worlds["hostile"], "md", "en")
    # Every < that is not escaped is one of ours.
    assert set(re.findall(r"(?<!\\)(?:\\\\)*<(?!a id=\"[a-z0-9.-]+\"></a>|/a>|br>)", markdown)) == set()
    assert not re.search(r"(?<!\\)\]\(\s*[a-z]+:", markdown, re.IGNORECASE)
    assert HOSTILE[0] not in markdown


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=60))
def test_no_name_changes_the_structure_of_a_page(name):
    def tags(word: str) -> list[str]:
        offer = make_offer(id=word, provider=word)
        dossier = dossier_on(card=make_card(name=word), offers=[offer], records=())
        # Without charts, which are drawn apart and tested apart.
        document = tuple(b for b in signing_document(dossier, speaker("en")) if not hasattr(b, "words"))
        return [tag for tag in Page(html(document, speaker("en"))).tags if tag != "wbr"]

    assert tags(name) == tags("x")


def test_many_offers_make_no_long_page():
    names = [f"offer-{number:05}" for number in range(3000)]
    dossier = dossier_on(offers=offers_named(*names))
    text = document_text(dossier, "html", "en")
    assert len(text) < 600_000
    assert "Not shown here: 2,960 more" in text
    assert "Offers that are not excluded and not shown in full: 2,990." in text
    few = document_text(dossier_on(offers=offers_named(*names[:100])), "html", "en")
    assert Page(few).tags.count("tr") == Page(text).tags.count("tr")


def test_charts_are_images_with_a_name_and_ids_of_their_own(worlds):
    text = document_text(worlds["selected"], "html", "it")
    drawn = [part.partition("</svg>")[0] for part in text.split("<svg")[1:]]
    assert len(drawn) == 3  # cost beside margin, and memory of two offers
    ids = []
    for one in drawn:
        root = ET.fromstring(f"<svg{one}</svg>")
        assert root.get("role") == "img"
        names = {element.get("id"): element for element in root.iter() if element.get("id")}
        assert names[root.get("aria-labelledby")].text
        assert names[root.get("aria-describedby")].text
        ids += list(names)
    assert len(ids) == len(set(ids))
    assert "font-face" not in text


def test_numbers_and_dates_follow_the_language(worlds):
    english, italian = (document_text(worlds["selected"], "md", language) for language in ("en", "it"))
    assert "8,192" in english
    assert "8.192" in italian
    assert "12 Dec 2026" in english
    assert "12 dic 2026" in italian
    assert "47.14 USD" in english
    assert "47,14 USD" in italian


def test_a_document_begins_with_the_answer_and_ends_in_the_appendix(worlds):
    headings = [
        b.text for b in signing_document(worlds["selected"], speaker("en")) if isinstance(b, Heading) and b.level < 3
    ]
    assert headings == [
        "Decision: assistant",
        "What is asked for",
        "Verdicts",
        "Selected (USD)",
        "How the selected are ordered",
        "Offers in full",
        "Excluded",
        "What would invalidate this conclusion",
        "What was decided on",
        "Signature",
        "Appendix: records and documents",
        "Appendix: calculations",
    ]


def test_a_bill_is_shown_line_by_line(worlds):
    dossier = worlds["selected"]
    detail = dossier.in_full[0]
    usd = partial(Money, currency="USD")
    parts = (
        CostPart(name="price", minimum=usd(Decimal(40)), planned=usd(Decimal(50)), formula="1 x 50 USD"),
        CostPart(name="fee.setup", minimum=usd(Decimal(5)), planned=None),
        CostPart(name="tax", minimum=usd(Decimal("9.9")), planned=usd(Decimal(12)), formula="22 %"),
    )
    cost = Cost(minimum=usd(Decimal("54.9")), planned=usd(Decimal(67)), components=parts, notes=(TAX_UNSTATED(),))
    decision = change(detail.decision, cost=cost)
    document = signing_document(change(dossier, in_full=(change(detail, decision=decision),)), speaker("it"))
    (bill,) = tables(document, "il conto")
    assert [[flat(cell).partition(" [")[0] for cell in row] for row in bill.rows[:4]] == [
        ["prezzo", "1 x 50 USD", "40,00 USD", "50,00 USD"],
        ["attivazione", "", "5,00 USD", "ignoto"],
        ["imposta", "22 %", "9,90 USD", "12,00 USD"],
        ["B1 totale", "", "54,90 USD", "67,00 USD"],
    ]
    assert "imposte" in flat(bill.rows[4][1])
    assert bill.anchors == ("", "", "", "b1", "")


def test_offers_of_one_gpu_share_one_drawing_under_titles_of_their_own(worlds, monkeypatch):
    import vl_convert

    from capienza.report import charts

    drawn = []
    convert = vl_convert.vegalite_to_svg
    monkeypatch.setattr(
        charts.vl_convert, "vegalite_to_svg", lambda spec, **words: drawn.append(1) or convert(spec, **words)
    )
    charts._drawn.cache_clear()
    text = document_text(worlds["selected"], "html", "it")
    assert len(text.split("<svg")) - 1 == 3
    assert len(drawn) == 2  # cost beside margin, and the memory of the one GPU that both offers have
    assert len(set(re.findall(r"<title id=.chart-\d-title.>([^<]*)", text))) == 3
