"""The figure of a comparison: what it draws is what was judged, in both languages, and nothing acts on the reader."""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ET
from decimal import Decimal
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "quality"))
from gate import NUMERIC, answers, plan_for, written_corpus

from capienza.api.qualifying import Compared
from capienza.errors import MissingPartError, UnreachableError, UsageError
from capienza.i18n.translator import speaker
from capienza.quality.compare import compare
from capienza.quality.plan import PlannedMetric
from capienza.report.blocks import MarginPanel, Span
from capienza.report.charts import _domain, margins_spec
from capienza.report.quality_figure import margins_chart, prepare_figure, write_figure

BOTH = PlannedMetric(
    name="numeric", kind="numeric", max_regression=Decimal("0.05"), min=Decimal("0.9"), reason="checked by hand"
)
EN = speaker("en")


def _compared(folder: Path, *metrics: PlannedMetric, wrong: int = 7, harmed: int = 150, arms: int = 4) -> Compared:
    corpus = written_corpus(folder, 300)
    plan = plan_for(corpus, *metrics)
    counts = {"reference": 0, "candidate": wrong, "reference_again": 0, "harmed": harmed}
    given = dict(list(counts.items())[:arms])
    found = compare(plan, corpus, {arm: answers(plan, arm, count) for arm, count in given.items()})
    return Compared(plan=plan, comparison=found)


def test_rows_are_the_controls_around_the_candidate_with_the_figures_that_were_judged(tmp_path):
    found = _compared(tmp_path)
    (panel,) = margins_chart(found, EN).panels
    rows = {span.label: span for span in panel.spans}
    assert list(rows) == ["reference against itself", "candidate", "harmed control"]
    result = found.comparison.results[0]
    drawn = rows["candidate"]
    assert (drawn.value, drawn.lower, drawn.upper) == (result.difference, *result.interval)
    assert (drawn.word, rows["harmed control"].word) == ("unknown", "violated")
    assert drawn.notes[1] == "300 items, 0 gained, 7 lost"
    assert (panel.threshold, panel.has_zero, panel.is_worse_above) == (-0.03, True, False)


def test_a_metric_with_two_thresholds_has_two_panels_and_each_its_own_word(tmp_path):
    found = _compared(tmp_path, BOTH, wrong=40)
    difference, own = margins_chart(found, EN).panels
    assert (difference.spans[1].word, own.spans[1].word) == ("violated", "unknown")
    assert own.threshold == 0.9
    assert not own.has_zero
    assert own.spans[1].value == pytest.approx(260 / 300)


def test_a_satisfied_metric_is_satisfied_in_every_panel(tmp_path):
    panels = margins_chart(_compared(tmp_path, BOTH, wrong=1), EN).panels
    assert [panel.spans[1].word for panel in panels] == ["satisfied", "satisfied"]


def test_an_alarm_is_worse_above_its_margin(tmp_path):
    alarm = PlannedMetric(name="kl", kind="kl", max_regression=Decimal("0.1"))
    panel = margins_chart(_compared(tmp_path, NUMERIC, alarm), EN).panels[1]
    assert (panel.threshold, panel.is_worse_above) == (0.1, True)
    assert [span.value for span in panel.spans] == [None, None, None]
    json.dumps(margins_spec(margins_chart(_compared(tmp_path, NUMERIC, alarm), EN)), allow_nan=False)


def test_without_controls_the_candidate_is_insufficient(tmp_path):
    chart = margins_chart(_compared(tmp_path, wrong=0, arms=2), EN)
    assert [span.word for span in chart.panels[0].spans] == ["insufficient"]
    assert "do not let it count" in chart.legend


@pytest.mark.parametrize("language, word, number", [("en", "unknown", "-0.0233"), ("it", "ignoto", "-0,0233")])
def test_all_forms_in_both_languages(tmp_path, language, word, number):
    found, say = _compared(tmp_path), speaker(language)
    for ending in (".svg", ".png", ".html", ".json"):
        path = tmp_path / f"figure{ending}"
        prepare_figure(path)
        write_figure(found, path, say)
        before = path.read_bytes()
        write_figure(found, path, say)
        assert path.read_bytes() == before
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    svg = (tmp_path / "figure.svg").read_text()
    root = ET.fromstring(svg)
    texts = ["".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert word in texts
    assert any(number in text for text in texts)
    told = [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}title")]
    assert sum("300" in text and number in text for text in told) == 1
    page = (tmp_path / "figure.html").read_text()
    assert "<script" not in page + svg
    assert "<svg" in page
    spec = json.loads((tmp_path / "figure.json").read_text())
    assert "vega-lite" in spec["$schema"]
    assert "tooltip" in json.dumps(spec)


def test_a_row_far_off_is_cut_and_the_others_keep_their_room():
    def span(value: float, *, far: bool = False) -> Span:
        return Span("a", "satisfied", "w", (), value, value - 0.01, value + 0.01, far)

    near = MarginPanel("t", "x", (span(0.0), span(-0.3, far=True)), -0.02, has_zero=True)
    far = MarginPanel("t", "x", (span(0.0), span(-0.9, far=True)), -0.02, has_zero=True)
    low, high = _domain(near)
    assert (low, high) == (pytest.approx(-0.02 - 0.06 * 0.03), pytest.approx(0.01 + 0.06 * 0.03))
    assert _domain(far) == (low, high)
    closer = MarginPanel("t", "x", (span(0.0), span(-0.1, far=True)), -0.02, has_zero=True)
    assert _domain(closer)[0] < -0.11


def test_what_is_wrong_is_said_before_anything_is_compared(tmp_path, monkeypatch):
    with pytest.raises(UsageError, match="figure ends in"):
        prepare_figure(tmp_path / "figure.pdf")
    with pytest.raises(UnreachableError):
        prepare_figure(tmp_path / "none" / "figure.svg")
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(MissingPartError, match="vl-convert-python"):
        prepare_figure(tmp_path / "figure.svg")


def test_names_are_inert_in_the_page(tmp_path):
    nasty = PlannedMetric(name="<script>x</script>\u202e", kind="numeric", max_regression=Decimal("0.03"))
    path = tmp_path / "figure.html"
    write_figure(_compared(tmp_path, nasty), path, EN)
    assert "<script" not in path.read_text()
    assert "\u202e" not in path.read_text()
