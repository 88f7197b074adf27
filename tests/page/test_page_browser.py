"""The page in a browser: no violation of axe-core, nothing asked for, nothing wider than a phone, sheets that print."""

from __future__ import annotations

import re

import pytest
from browser import chromium, cut_off, missing, open_page, printed, requested, violations
from page_world import states

pytestmark = [pytest.mark.slow, pytest.mark.browser]
LANGUAGES = ("en", "it")
NAMES = ("selected", "nothing", "excluded", "waived", "hostile", "unpredicted")
PHONE, DESK, SHEET = 360, 1280, 688
"""Widths in pixels; a sheet is A4 within its margins, 182 mm at 96 pixels an inch."""


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    from capienza.report.page import write_document

    folder = tmp_path_factory.mktemp("pages")
    made = states()
    assert tuple(made) == NAMES
    for name, dossier in made.items():
        for language in LANGUAGES:
            write_document(dossier, folder / f"{name}-{language}.html", language)
    return folder


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    lacking = missing()
    if lacking:
        pytest.skip(lacking)
    with chromium(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", NAMES)
def test_a_page_in_a_browser(driver, pages, name, language):
    page = pages / f"{name}-{language}.html"
    for width, scheme in ((DESK, "light"), (DESK, "dark"), (PHONE, "light")):
        open_page(driver, page, width, scheme)
        assert requested(driver) == [page.as_uri()]
        assert driver.get_log("browser") == []
        assert driver.execute_script("return document.documentElement.scrollWidth") <= width
        assert driver.execute_script("return document.documentElement.lang") == language
        assert driver.execute_script("return document.scripts.length") == 0
        assert violations(driver) == []
    open_page(driver, page, DESK)
    pdf = printed(driver)
    assert pdf.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) >= 2


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", [name for name in NAMES if name != "hostile"])
def test_a_sheet_of_paper_loses_nothing(driver, pages, name, language):
    open_page(driver, pages / f"{name}-{language}.html", SHEET, medium="print")
    assert cut_off(driver) == []
    assert driver.execute_script("return getComputedStyle(document.querySelector('.skip')).display") == "none"


def test_axe_core_finds_what_is_wrong(driver, tmp_path):
    """The check itself: a page with a planted fault is not passed."""
    page = tmp_path / "bad.html"
    page.write_text("<!DOCTYPE html><html><title>x</title><main><h1>x</h1><img src='data:,'></main></html>")
    open_page(driver, page, DESK)
    assert {one.partition(":")[0] for one in violations(driver)} >= {"image-alt", "html-has-lang"}


def test_every_link_inside_leads_somewhere(driver, pages):
    for page in sorted(pages.glob("*.html")):
        open_page(driver, page, DESK)
        lost = driver.execute_script(
            "return [...document.querySelectorAll('a[href^=\"#\"]')].map(a => a.getAttribute('href').slice(1))"
            ".filter(id => document.querySelectorAll('[id=\"' + CSS.escape(id) + '\"]').length !== 1)"
        )
        assert lost == [], page.name
