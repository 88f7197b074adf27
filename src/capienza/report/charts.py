"""Charts as SVG for a page: one Altair definition each, drawn by vl-convert without a browser or the network.

The SVG is made safe to stand in a page beside others: its ids carry the chart's name, it has a title and a description,
no script, no font from outside, and equal data give equal bytes. It says nothing that the table beside it does not.
"""

from __future__ import annotations

import functools
import re
import xml.etree.ElementTree as ET
from decimal import Decimal
from typing import Any, Literal

import altair as alt
import msgspec
import vl_convert

from capienza.report.blocks import Bar, CostChart, PeaksChart, Point
from capienza.report.plain import visible
from capienza.units import GIB

SVG = "http://www.w3.org/2000/svg"
FONT = "Liberation Sans, Arial, Helvetica, sans-serif"
INK, PAPER, BLUE, RED, ORANGE = "#1d2733", "#ffffff", "#2f6fab", "#b42318", "#b54708"
LOCALES: dict[str, Literal["en-US", "it-IT"]] = {"en": "en-US", "it": "it-IT"}
ROW_PIXELS, PEAKS_WIDTH, SIDE_WIDTH = 28, 640, 330
KEPT_POINTS = 20
"""Offers that the chart of cost draws, in their order."""
KEPT_DRAWINGS = 16
UNSAID = ("class", "role")
_REFERENCE = re.compile(r"url\(#([^)]+)\)")


def chart_svg(chart: PeaksChart | CostChart, name: str, language: str) -> str:
    """The chart as an SVG element. `name` starts its ids; it has to be unique on the page."""
    drawn = _drawn(msgspec.structs.replace(chart, title="", description=""), language)
    return _labelled(drawn, name, visible(chart.title), visible(chart.description))


@functools.lru_cache(maxsize=KEPT_DRAWINGS)
def _drawn(chart: PeaksChart | CostChart, language: str) -> str:
    """The bare drawing. Offers of one GPU have the same chart under another title: it is drawn once."""
    spec = peaks_spec(chart) if isinstance(chart, PeaksChart) else cost_spec(chart)
    return vl_convert.vegalite_to_svg(spec, allowed_base_urls=[], format_locale=LOCALES[language])


def peaks_spec(chart: PeaksChart) -> dict[str, Any]:
    """Expected need as a bar, floor to ceiling as a whisker, readings as points, usable capacity as a line."""
    rows = alt.InlineData(values=[_bar_row(bar) for bar in chart.bars])
    phases = [visible(bar.label) for bar in chart.bars]
    y = alt.Y("phase:N", sort=phases, title=None)
    x = alt.X("expected:Q", title=chart.axis, scale=alt.Scale(zero=True))
    base = alt.Chart(rows)
    layers: list[alt.Chart] = [
        base.mark_bar(color=BLUE, size=14).encode(x=x, y=y),
        base.mark_rule(color=INK, strokeWidth=2).encode(x=alt.X("floor:Q"), x2="ceiling:Q", y=y),
        base.mark_tick(color=INK, thickness=2, size=12).encode(x=alt.X("floor:Q"), y=y),
        base.mark_tick(color=INK, thickness=2, size=12).encode(x=alt.X("ceiling:Q"), y=y),
    ]
    if any(bar.observed_bytes is not None for bar in chart.bars):
        points = base.transform_filter("isValid(datum.observed)").mark_point(
            shape="diamond", filled=True, color=ORANGE, stroke=PAPER, size=110, opacity=1
        )
        layers.append(points.encode(x=alt.X("observed:Q"), y=y))
    if chart.usable_bytes is not None:
        usable = alt.Chart(alt.InlineData(values=[{"usable": _gib(chart.usable_bytes)}]))
        layers.append(usable.mark_rule(color=RED, strokeWidth=2, strokeDash=[6, 3]).encode(x=alt.X("usable:Q")))
    drawn = alt.layer(*layers).properties(width=PEAKS_WIDTH, height=ROW_PIXELS * max(1, len(chart.bars)))
    return _configured(drawn)


def cost_spec(chart: CostChart) -> dict[str, Any]:
    """Two rows of bars side by side, one line an offer: cost, and useful margin. To confirm is hollow."""
    points = chart.points[:KEPT_POINTS]
    base = alt.Chart(alt.InlineData(values=[_point_row(point) for point in points]))
    names = [visible(point.label) for point in points]
    hollow = alt.condition("datum.selected", alt.value(BLUE), alt.value(PAPER))

    def bars(field: str, title: str, axis: alt.Axis) -> alt.Chart:
        drawn = base.mark_bar(stroke=BLUE, strokeWidth=1.5, size=14).encode(
            x=alt.X(f"{field}:Q", title=title, scale=alt.Scale(zero=True)),
            y=alt.Y("offer:N", sort=names, title=None, axis=axis),
            fill=hollow,
        )
        sized: alt.Chart = drawn.properties(width=SIDE_WIDTH, height=ROW_PIXELS * len(points))
        return sized

    cost = bars("cost", chart.axes[0], alt.Axis())
    margin = bars("margin", chart.axes[1], alt.Axis(labels=False, ticks=False))
    return _configured(alt.hconcat(cost, margin, spacing=24))


def _bar_row(bar: Bar) -> dict[str, Any]:
    row: dict[str, Any] = {
        "phase": visible(bar.label),
        "floor": _gib(bar.floor_bytes),
        "expected": _gib(bar.expected_bytes),
        "ceiling": _gib(bar.ceiling_bytes),
    }
    return row if bar.observed_bytes is None else row | {"observed": _gib(bar.observed_bytes)}


def _point_row(point: Point) -> dict[str, Any]:
    return {
        "offer": visible(point.label),
        "selected": point.state == "admissible",
        "cost": float(Decimal(point.amount)),
        "margin": _gib(point.margin_bytes),
    }


def _gib(amount_bytes: int) -> float:
    return float(round(Decimal(amount_bytes) / GIB, 4))


def _configured(drawn: Any) -> dict[str, Any]:
    configured = (
        drawn.configure(font=FONT, background=PAPER, aria=False, padding=8)
        .configure_axis(
            labelColor=INK, titleColor=INK, labelFontSize=12, titleFontSize=12, titleFontWeight="normal",
            gridColor="#dfe4ea", domainColor="#6b7785", tickColor="#6b7785", labelLimit=220,
        )
        .configure_view(stroke=None)
    )  # fmt: skip
    spec: dict[str, Any] = configured.to_dict()
    return spec


def _labelled(drawn: str, name: str, title: str, description: str) -> str:
    """The drawing with a title, a description, and ids of its own; numbered in the order they stand in."""
    ET.register_namespace("", SVG)
    root = ET.fromstring(drawn)
    known = {
        element.get("id", ""): f"{name}-{number}"
        for number, element in enumerate(one for one in root.iter() if one.get("id"))
    }
    for element in root.iter():
        for key, value in list(element.items()):
            if key in UNSAID or key.startswith("aria-"):
                # One image with one description: its parts say nothing of their own.
                del element.attrib[key]
            elif key == "id":
                element.set(key, known[value])
            elif "url(#" in value:
                element.set(key, _REFERENCE.sub(lambda found: f"url(#{known[found[1]]})", value))
    for text, tag in ((description, "desc"), (title, "title")):
        element = ET.Element(f"{{{SVG}}}{tag}", {"id": f"{name}-{tag}"})
        element.text = text
        root.insert(0, element)
    root.set("role", "img")
    root.set("aria-labelledby", f"{name}-title")
    root.set("aria-describedby", f"{name}-desc")
    return ET.tostring(root, encoding="unicode")
