"""Charts as SVG for a page: one Altair definition each, drawn by vl-convert without a browser or the network.

The SVG is made safe to stand in a page beside others: its ids carry the chart's name, it has a title and a description,
no script, no font from outside, and equal data give equal bytes. It says nothing that the table beside it does not.
"""

from __future__ import annotations

import functools
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Literal

import altair as alt
import msgspec
import vl_convert

from capienza.report.blocks import Bar, CostChart, MarginPanel, MarginsChart, PeaksChart, Point, Span
from capienza.report.plain import visible
from capienza.units import GIB

SVG = "http://www.w3.org/2000/svg"
FONT = "Liberation Sans, Arial, Helvetica, sans-serif"
INK, PAPER, BLUE, RED, ORANGE = "#1d2733", "#ffffff", "#2f6fab", "#b42318", "#b54708"
LOCALES: dict[str, Literal["en-US", "it-IT"]] = {"en": "en-US", "it": "it-IT"}
ROW_PIXELS, PEAKS_WIDTH, SIDE_WIDTH = 28, 640, 330
SPAN_PIXELS, PANEL_WIDTH = 54, 420
STATE_COLOURS = {"satisfied": "#0072b2", "no_alarm": "#0072b2", "violated": "#bf5000"}
STATE_SHAPES = {"satisfied": "circle", "no_alarm": "circle", "violated": "square"}
OPEN_COLOUR, OPEN_SHAPE = "#5a6572", "diamond"
"""Of every other state. Colours that are told apart by all; the shape and the word say the same."""
SHADE = "#fbe3d6"
MOST_SPREAD = 8
"""Times the width of what matters (candidate, reference again, margin) beyond which a row is cut at the edge."""
KEPT_POINTS = 20
"""Offers that the chart of cost draws, in their order."""
KEPT_DRAWINGS = 16
UNSAID = ("class", "role")
Chart = PeaksChart | CostChart | MarginsChart
_REFERENCE = re.compile(r"url\(#([^)]+)\)")


def chart_svg(chart: Chart, name: str, language: str, *, is_alone: bool = False) -> str:
    """The chart as an SVG element. `name` starts its ids; it has to be unique on the page.

    `is_alone`: no page around it says what it is, so it shows its own title where it has one to show.
    """
    drawn = _drawn(chart if is_alone else msgspec.structs.replace(chart, title="", description=""), language)
    return _labelled(drawn, name, visible(chart.title), visible(chart.description))


def chart_png(chart: Chart, language: str, scale: float) -> bytes:
    """The chart as a PNG picture, `scale` pixels to a point."""
    drawn: bytes = vl_convert.svg_to_png(_drawn(chart, language), scale=scale)
    return drawn


@functools.lru_cache(maxsize=KEPT_DRAWINGS)
def _drawn(chart: Chart, language: str) -> str:
    """The bare drawing. Offers of one GPU have the same chart under another title: it is drawn once."""
    spec = chart_spec(chart)
    return vl_convert.vegalite_to_svg(spec, allowed_base_urls=[], format_locale=LOCALES[language])


def chart_spec(chart: Chart) -> dict[str, Any]:
    """The Vega-Lite definition of a chart."""
    match chart:
        case PeaksChart():
            return peaks_spec(chart)
        case CostChart():
            return cost_spec(chart)
        case MarginsChart():
            return margins_spec(chart)


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


def margins_spec(chart: MarginsChart) -> dict[str, Any]:
    """One panel a threshold: a row for each arm with its point and interval, what is not acceptable shaded."""
    panels = [_margin_panel(panel) for panel in chart.panels]
    drawn = alt.vconcat(*panels, spacing=28)
    if chart.title:
        drawn = drawn.properties(
            title=alt.Title(
                visible(chart.title), subtitle=visible(chart.legend), anchor="start", color=INK, fontSize=16,
                subtitleColor=INK, subtitleFontSize=12, offset=14, aria=False,
            )
        )  # fmt: skip
    return _configured(drawn.resolve_scale(x="independent", y="independent"), aria=True)


def _margin_panel(panel: MarginPanel) -> Any:
    low, high = _domain(panel)
    rows = alt.Chart(alt.InlineData(values=[_span_row(span, low, high) for span in panel.spans]))
    scale = alt.Scale(domain=[low, high], nice=False, zero=False)
    axis = alt.Axis(labelLimit=260, aria=False)
    scaled: dict[str, Any] = {"scale": scale, "axis": alt.Axis(title=panel.axis, aria=False, tickCount=6)}
    y = alt.Y("arm:N", sort=[visible(span.label) for span in panel.spans], title=None, axis=axis)
    colour, shape = alt.Color("colour:N", scale=None), alt.Shape("shape:N", scale=None)
    edge = {"from": panel.threshold, "to": high if panel.is_worse_above else low, "zero": 0.0}
    lines = alt.Chart(alt.InlineData(values=[edge]))
    known, drawn = rows.transform_filter("isValid(datum.at)"), rows.transform_filter("isValid(datum.lower)")
    told = {"description": alt.Description("told:N"), "tooltip": alt.Tooltip("told:N", title=None)}
    layers = [
        lines.mark_rect(color=SHADE, aria=False).encode(x=alt.X("from:Q", **scaled), x2="to:Q"),
        *(
            [lines.mark_rule(color=OPEN_COLOUR, aria=False).encode(x=alt.X("zero:Q", **scaled))]
            if panel.has_zero
            else []
        ),
        lines.mark_rule(color=RED, strokeWidth=2, strokeDash=[6, 3], aria=False).encode(x=alt.X("from:Q", **scaled)),
        drawn.mark_rule(strokeWidth=3, aria=False).encode(
            x=alt.X("lower:Q", **scaled), x2="upper:Q", y=y, color=colour
        ),
        *(
            drawn.transform_filter(f"datum.{end} == datum.true_{end}")
            .mark_tick(thickness=2, size=14, opacity=1, aria=False)
            .encode(x=alt.X(f"{end}:Q", **scaled), y=y, color=colour)
            for end in ("lower", "upper")
        ),
        known.mark_point(filled=True, size=130, opacity=1, stroke=PAPER, strokeWidth=1).encode(
            x=alt.X("at:Q", **scaled), y=y, color=colour, shape=shape, **told
        ),
        rows.mark_text(align="left", fontSize=12, fontWeight="bold", dy=-14, aria=False).encode(
            x=alt.value(PANEL_WIDTH + 14), y=y, text="word:N", color=colour
        ),
        rows.mark_text(align="left", fontSize=11, color=INK, dy=2, lineHeight=14, aria=False).encode(
            x=alt.value(PANEL_WIDTH + 14), y=y, text="note:N"
        ),
    ]
    title = alt.Title(visible(panel.title), anchor="start", frame="bounds", color=INK, fontSize=13, aria=False)
    return alt.layer(*layers).properties(width=PANEL_WIDTH, height=SPAN_PIXELS * max(1, len(panel.spans)), title=title)


def _domain(panel: MarginPanel) -> tuple[float, float]:
    """What the panel shows: all rows, or where one lies very far off, the others."""

    def reach(spans: Iterable[Span]) -> tuple[float, float]:
        figures = [figure for span in spans for figure in (span.lower, span.value, span.upper) if figure is not None]
        figures += [panel.threshold, *([0.0] if panel.has_zero else [])]
        return min(figures), max(figures)

    near = reach(span for span in panel.spans if not span.is_far_off)
    full = reach(panel.spans)
    wide = max(near[1] - near[0], 1e-9)
    low, high = full if full[1] - full[0] <= MOST_SPREAD * wide else near
    pad = 0.06 * max(high - low, 1e-9)
    return low - pad, high + pad


def _span_row(span: Span, low: float, high: float) -> dict[str, Any]:
    def cut(figure: float | None) -> float | None:
        return None if figure is None else min(max(figure, low), high)

    return {
        "arm": visible(span.label),
        "word": visible(span.word),
        "note": [visible(line) for line in span.notes],
        "told": ": ".join(map(visible, (span.label, *span.notes))),
        "at": cut(span.value),
        "lower": cut(span.lower),
        "upper": cut(span.upper),
        "true_lower": span.lower,
        "true_upper": span.upper,
        "colour": STATE_COLOURS.get(span.state, OPEN_COLOUR),
        "shape": _shape(span, low, high),
    }


def _shape(span: Span, low: float, high: float) -> str:
    """The state's shape; an arrow where the point lies beyond an end of the axis."""
    if span.value is not None and span.value < low:
        return "triangle-left"
    if span.value is not None and span.value > high:
        return "triangle-right"
    return STATE_SHAPES.get(span.state, OPEN_SHAPE)


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


def _configured(drawn: Any, *, aria: bool = False) -> dict[str, Any]:
    configured = (
        drawn.configure(font=FONT, background=PAPER, aria=aria, padding=8)
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
    for element in list(root.iter()):
        if element.get("aria-roledescription") == "point":
            # What a pointer is told, without a script.
            told = ET.SubElement(element, f"{{{SVG}}}title")
            told.text = element.get("aria-label")
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
