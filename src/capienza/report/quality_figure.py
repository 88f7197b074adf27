"""A comparison as a figure: each interval against its margin, the controls beside the candidate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from capienza.canon import pretty
from capienza.errors import MissingPartError, Place, UsageError, template
from capienza.files import check_place, write_whole
from capienza.i18n.translator import Say, mark
from capienza.quality.plan import ALARMS, PlannedMetric
from capienza.quality.tango import Interval
from capienza.quality.verdict import Result, against
from capienza.report.blocks import Block, Document, Heading, MarginPanel, MarginsChart, Paragraph, Span
from capienza.report.page import missing_parts
from capienza.report.quality_result import WORD_LABELS, compared_document, ends, share

if TYPE_CHECKING:
    from capienza.api.qualifying import Compared

BAD_ENDING = template(
    "quality.figure-bad-ending", "a figure ends in {accepted}; found {found}", "name it comparison.svg, for example"
)
PART_MISSING = template(
    "quality.figure-part-missing",
    "a figure needs packages that are not installed: {packages}",
    'pip install "capienza[report]"',
)
ENDINGS = (".svg", ".png", ".html", ".json")
PIXEL_SCALE = 2.0
ROWS = (
    ("reference_again", mark("reference against itself")),
    ("candidate", mark("candidate")),
    ("harmed", mark("harmed control")),
)


def prepare_figure(path: Path) -> None:
    """Find out before all the work whether the figure can be made and written where it is wanted.

    Raises `UsageError`, `MissingPartError`, `UnreachableError`.
    """
    if path.suffix.lower() not in ENDINGS:
        raise UsageError(BAD_ENDING(found=path.name, accepted=ENDINGS), Place(str(path)))
    missing = missing_parts()
    if missing:
        raise MissingPartError(PART_MISSING(packages=missing))
    check_place(path)


def write_figure(found: Compared, path: Path, say: Say) -> None:
    """Write the figure in the form of the file's ending; it appears complete or not at all.

    .svg and .png are the picture, .html the whole comparison with it, .json its Vega-Lite definition.
    """
    made = {".svg": _svg, ".png": _png, ".html": _html, ".json": _json}[path.suffix.lower()](found, say)
    write_whole(path, lambda file: file.write(made))


def _svg(found: Compared, say: Say) -> bytes:
    from capienza.report.charts import chart_svg

    return chart_svg(margins_chart(found, say), "quality", say.language, is_alone=True).encode() + b"\n"


def _png(found: Compared, say: Say) -> bytes:
    from capienza.report.charts import chart_png

    return chart_png(margins_chart(found, say), say.language, PIXEL_SCALE)


def _html(found: Compared, say: Say) -> bytes:
    from capienza.report.html import html

    return html(with_figure(found, say), say).encode()


def _json(found: Compared, say: Say) -> bytes:
    from capienza.report.charts import chart_spec

    return f"{pretty(chart_spec(margins_chart(found, say)))}\n".encode()


def with_figure(found: Compared, say: Say) -> Document:
    """The comparison with its figure behind the words."""
    first, words, *rest = compared_document(found, say)
    figure: list[Block] = [Heading(say("Intervals against their margins")), margins_chart(found, say)]
    if found.comparison.doubts:
        figure.append(Paragraph(say("Nothing here counts: see why below.")))
    return (first, words, *figure, *rest)


def margins_chart(found: Compared, say: Say) -> MarginsChart:
    """The figure, a panel for each threshold of each metric."""
    metrics = {metric.name: metric for metric in found.plan.metrics}
    results = found.comparison.results
    panels = tuple(
        panel for place, one in enumerate(results) for panel in _panels(found, metrics[one.metric], place, say)
    )
    title = say("Quality: {name}", name=found.plan.name)
    return MarginsChart(
        title=title,
        description="; ".join(f"{panel.title}: {_read_out(panel)}" for panel in panels),
        panels=panels,
        words=(say("figure with its interval"), say("margin"), say("not acceptable"), say("no difference")),
        legend=_legend(found, say),
    )


def _legend(found: Compared, say: Say) -> str:
    legend = say("Dashed: the margin. Shaded: not acceptable. Solid: no difference. An arrow: beyond the axis.")
    if found.comparison.doubts:
        return f"{legend} {say('Insufficient: a control or the outputs do not let it count.')}"
    return legend


def _read_out(panel: MarginPanel) -> str:
    return ", ".join(f"{span.label}: {span.word} ({', '.join(span.notes)})" for span in panel.spans)


def _panels(found: Compared, metric: PlannedMetric, place: int, say: Say) -> Iterator[MarginPanel]:
    """Against `max_regression` the difference, against `min` the arm's own mean; of an alarm always the mean."""
    most, least = metric.max_regression, metric.min
    is_alarm = metric.kind in ALARMS

    def rows(of: Callable[[Result], tuple[float | None, Interval | None]], threshold: float) -> tuple[Span, ...]:
        return tuple(_spans(found, place, of, threshold, say))

    if most is not None and is_alarm:
        yield MarginPanel(
            title=say("{metric}: at most {most}", metric=metric.name, most=say.decimals(f"{most:f}")),
            axis=say("mean against the reference"),
            spans=rows(_own, float(most)),
            threshold=float(most),
            is_worse_above=True,
        )
    elif most is not None:
        yield MarginPanel(
            title=say("{metric}: may lose {most}", metric=metric.name, most=say.decimals(f"{most:f}")),
            axis=say("difference, arm minus reference"),
            spans=rows(_difference, -float(most)),
            threshold=-float(most),
            has_zero=True,
        )
    if least is not None:
        yield MarginPanel(
            title=say("{metric}: at least {least}", metric=metric.name, least=say.decimals(f"{least:f}")),
            axis=say("mean against the reference") if is_alarm else say("mean of the arm"),
            spans=rows(_own, float(least)),
            threshold=float(least),
        )


def _difference(result: Result) -> tuple[float | None, Interval | None]:
    return result.difference, result.interval


def _own(result: Result) -> tuple[float | None, Interval | None]:
    return result.candidate, result.own


def _spans(
    found: Compared,
    place: int,
    of: Callable[[Result], tuple[float | None, Interval | None]],
    threshold: float,
    say: Say,
) -> Iterator[Span]:
    by_arm = {"candidate": found.comparison.results, **found.comparison.controls}
    for arm, label in ROWS:
        if arm not in by_arm:
            continue
        result = by_arm[arm][place]
        value, interval = of(result)
        state = _state(result, interval, threshold)
        if arm == "candidate" and found.comparison.doubts:
            state = "insufficient"
        figures = f"{share(value, say, sign=of is _difference)} ({ends(interval, say, sign=of is _difference)})"
        counted = say("{items} items", items=say.number(result.items))
        if result.gain is not None and result.loss is not None:
            gained, lost = say.number(result.gain), say.number(result.loss)
            counted = say("{counted}, {gained} gained, {lost} lost", counted=counted, gained=gained, lost=lost)
        notes = (figures, counted)
        lower, upper = interval or (None, None)
        yield Span(say(label), state, say(WORD_LABELS[state]), notes, value, lower, upper, arm == "harmed")


def _state(result: Result, interval: Interval | None, threshold: float) -> str:
    """The metric's answer; of a metric that is violated, what its interval says at this threshold."""
    if result.state != "violated" or result.kind in ALARMS:
        return result.state
    return against(interval, threshold)
