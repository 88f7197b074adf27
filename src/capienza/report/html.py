"""A document as one HTML file: no script, no network, nothing outside it. Every text in it is inert.

The page opens from disk, prints on A4, and reads in the light and in the dark. Only an address of http or https
becomes a link to outside.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from capienza import __version__
from capienza.i18n.translator import Say
from capienza.report.blocks import (
    Address,
    Block,
    Cell,
    CostChart,
    Document,
    Heading,
    Items,
    Lines,
    Link,
    MarginsChart,
    Mark,
    Paragraph,
    Part,
    PeaksChart,
    SignatureLines,
    State,
    Table,
    Text,
)
from capienza.report.plain import visible

SIGNS = {"admissible": "\u2713", "to_confirm": "?", "exclude": "\u2717", "not_applicable": "\u2013", "waived": "!"}
_WEB = re.compile(r"https?://[A-Za-z0-9.-]+(?::[0-9]+)?(?:[/?#][!#-;=?-_a-z~]*)?", re.ASCII)
"""Scheme, host, and characters that may stand in an address; no quote, bracket, backslash or space."""
_RUNNING = re.compile(r"[^0-9A-Za-z ,.:-]", re.ASCII)
PIECE = 16
_LONG = re.compile(r"[^\s]{25,}")
View = dict[str, Any]


def html(document: Document, say: Say, running: str = "") -> str:
    """The whole page. `running` stands at the foot of every printed sheet, so that loose ones can be told apart."""
    environment = Environment(
        loader=PackageLoader("capienza.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    first, *blocks = document
    assert isinstance(first, Heading)  # a document begins with its title
    sections = list(_sections(blocks, say))
    return environment.get_template("page.html").render(
        language=say.language,
        title=visible(first.text),
        sections=sections,
        contents=[section for section in sections if section["title"]],
        running=_RUNNING.sub("", running),
        version=__version__,
        words={
            "skip": say("skip to the text"),
            "contents": say("Contents"),
            "made": say("Made by capienza {version}. This file holds everything it shows.", version=__version__),
            "empty": say("to be filled in by hand"),
        },
    )


def _sections(blocks: Iterable[Block], say: Say) -> Iterator[View]:
    """Blocks by the level-2 heading they stand under; what stands before the first has no title."""
    current: View = {"title": "", "anchor": "summary", "blocks": []}
    count = {"section": 0, "table": 0, "chart": 0}
    for block in blocks:
        if isinstance(block, Heading) and block.level == 2:
            yield current
            count["section"] += 1
            anchor = block.anchor or f"section-{count['section']}"
            current = {"title": visible(block.text), "anchor": anchor, "blocks": []}
        else:
            current["blocks"].append(_block(block, current["title"], count, say))
    yield current


def _block(block: Block, section: str, count: dict[str, int], say: Say) -> View:
    match block:
        case Heading(text, level, anchor):
            return {"kind": "heading", "text": visible(text), "level": level, "anchor": anchor}
        case Paragraph(text):
            return {"kind": "paragraph", "parts": _parts(text)}
        case Items(items):
            return {"kind": "items", "items": [_parts(item) for item in items]}
        case SignatureLines(labels):
            return {"kind": "signature", "labels": list(map(visible, labels))}
        case PeaksChart() | CostChart() | MarginsChart():
            count["chart"] += 1
            return _figure(block, f"chart-{count['chart']}", say)
        case Table():
            count["table"] += 1
            return _table(block, section, f"table-{count['table']}")


def _table(table: Table, section: str, name: str) -> View:
    anchors = (*table.anchors, *[""] * (len(table.rows) - len(table.anchors)))
    return {
        "kind": "table",
        "name": name,
        "caption": visible(table.title or section),
        "is_named": bool(table.title),
        "columns": [visible(column) for column in table.columns],
        "numeric": table.numeric,
        "whole": table.whole,
        "rows": [
            {"anchor": anchor, "cells": [_cell(cell) for cell in row]}
            for row, anchor in zip(table.rows, anchors, strict=True)
        ],
    }


def _figure(chart: PeaksChart | CostChart | MarginsChart, name: str, say: Say) -> View:
    from capienza.report.charts import chart_svg

    if isinstance(chart, PeaksChart):
        expected, spread, observed, usable = chart.words
        key = [("bar", expected), ("whisker", spread)]
        key += [("diamond", observed)] if any(bar.observed_bytes is not None for bar in chart.bars) else []
        key += [("line", usable)] if chart.usable_bytes is not None else []
    elif isinstance(chart, CostChart):
        key = [("bar", chart.words[0]), ("hollow", chart.words[1])]
    else:
        shown = [True, True, True, any(panel.has_zero for panel in chart.panels)]
        signs = zip(("whisker", "line", "beyond", "zero"), chart.words, shown, strict=True)
        key = [(sign, word) for sign, word, is_shown in signs if is_shown]
    svg = chart_svg(chart, name, say.language)
    return {
        "kind": "figure",
        "name": name,
        "caption": visible(chart.title),
        "svg": Markup(svg),
        "key": key,
    }


def _cell(cell: Cell) -> list[list[View]]:
    return [_parts(line) for line in cell.lines] if isinstance(cell, Lines) else [_parts(cell)]


def _parts(text: Text) -> list[View]:
    return [_part(part) for part in ((text,) if isinstance(text, str) else text)]


def _part(part: Part) -> View:
    match part:
        case str():
            return _plain(part)
        case Mark(label):
            return {"kind": "mark", "text": label, "anchor": part.anchor}
        case Link(text, anchor):
            return {"kind": "link", "pieces": _pieces(text), "href": f"#{anchor}", "is_outside": False}
        case State(name, text, word):
            shown = {"text": visible(text), "word": visible(word)}
            return {"kind": "state", "name": name, "sign": SIGNS[name], **shown}
        case Address(text) if _WEB.fullmatch(text):
            return {"kind": "link", "pieces": _pieces(text), "href": text, "is_outside": True}
        case Address(text):
            return _plain(text)


def _plain(text: str) -> View:
    return {"kind": "text", "pieces": _pieces(text)}


def _pieces(text: str) -> list[str]:
    """A text in pieces between which a line may break: nobody can say where in a digest."""
    return _LONG.sub(lambda run: "\0".join(_cut(run[0])), visible(text)).split("\0")


def _cut(run: str) -> list[str]:
    return [run[start : start + PIECE] for start in range(0, len(run), PIECE)]
