"""A comparison as a document and as JSON (`capienza.quality-compare/1`)."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from capienza.canon import plain
from capienza.i18n.translator import Say, mark
from capienza.quality.compare import LENGTH, Comparison
from capienza.quality.plan import QualityPlan
from capienza.quality.tango import Interval
from capienza.quality.verdict import Result
from capienza.report.blocks import Block, Document, Heading, Items, Paragraph, Table
from capienza.report.messages import message_data, sentence
from capienza.report.quality_plan import ARM_LABELS, arms_table
from capienza.report.tool import TOOL

if TYPE_CHECKING:
    from capienza.api.qualifying import Compared

COMPARE_SCHEMA = "capienza.quality-compare/1"
WORD_LABELS = {
    "satisfied": mark("satisfied"),
    "violated": mark("violated"),
    "unknown": mark("unknown"),
    "no_alarm": mark("no alarm"),
    "insufficient": mark("insufficient"),
}


def compared_data(found: Compared) -> dict[str, Any]:
    """Words, figures, controls and doubts; shares and differences are plain numbers."""
    comparison = found.comparison
    return {
        "schema": COMPARE_SCHEMA,
        "tool": TOOL,
        "plan": found.plan.id,
        "record": found.record.id if found.record else None,
        "words": dict(comparison.words),
        "results": [_result_data(result) for result in comparison.results],
        "controls": {arm: [_result_data(result) for result in results] for arm, results in comparison.controls.items()},
        "length": plain(comparison.length),
        "doubts": [message_data(message) for message in comparison.doubts],
        "findings": [message_data(message) for message in comparison.findings],
    }


def _result_data(result: Result) -> dict[str, Any]:
    data = {name: getattr(result, name) for name in result.__struct_fields__}
    for name in ("interval", "own"):
        found: Interval | None = data[name]
        data[name] = found and {"lower": found.lower, "upper": found.upper}
    data["reasons"] = [message_data(reason) for reason in result.reasons]
    return {**data, "of_reference": plain(result.of_reference), "of_candidate": plain(result.of_candidate)}


def compared_document(found: Compared, say: Say) -> Document:
    """The words first, then the figures behind them, the controls, and what is wrong with the test."""
    comparison, plan = found.comparison, found.plan
    blocks: list[Block] = [
        Heading(say("Quality: {name}", name=plan.name), 1),
        _words(comparison, plan, say),
        Heading(say("Figures")),
        _figures(comparison.results, say),
    ]
    blocks.append(
        Paragraph(
            say(
                "A difference is candidate minus reference; each end of an interval is wrong with rate {alpha}. Gained "
                "and lost: items that only the candidate, or only the reference, has right.",
                alpha=say.decimals(f"{plan.alpha:f}"),
            )
        )
    )
    reasons = [f"{each.metric}: {sentence(reason, say)}" for each in comparison.results for reason in each.reasons]
    if reasons:
        blocks.append(Items(tuple(reasons)))
    blocks += [Heading(say("Answers that could not be judged")), _unjudged(comparison, say)]
    if comparison.controls:
        blocks += [Heading(say("Controls")), _controls(comparison, say)]
    if comparison.doubts:
        blocks += [
            Heading(say("Why nothing counts")),
            Items(tuple(sentence(message, say) for message in comparison.doubts)),
        ]
    blocks += [Heading(say("What answered")), arms_table(plan, say)]
    if comparison.findings:
        blocks.append(Items(tuple(sentence(message, say) for message in comparison.findings)))
    if found.record:
        blocks.append(Paragraph(say("Kept as record {record}.", record=found.record.id[:12])))
    return tuple(blocks)


def _words(comparison: Comparison, plan: QualityPlan, say: Say) -> Table:
    metrics = {metric.name: metric for metric in plan.metrics}
    rows = []
    for name, word in comparison.words.items():
        metric = metrics.get(name)
        lose = "-" if metric is None or metric.max_regression is None else say.decimals(f"{metric.max_regression:f}")
        least = "-" if metric is None or metric.min is None else say.decimals(f"{metric.min:f}")
        if name == LENGTH and comparison.length:
            least, lose = (say.decimals(f"{edge:g}") for edge in comparison.length.band)
        rows.append((say("length of outputs") if name == LENGTH else name, say(WORD_LABELS[word]), lose, least))
    return Table((say("metric"), say("answer"), say("may lose"), say("at least")), tuple(rows), numeric=(2, 3))


def _figures(results: tuple[Result, ...], say: Say) -> Table:
    columns = (
        say("metric"), say("items"), say("reference"), say("candidate"), say("difference"), say("interval"),
        say("gained"), say("lost"), say("p of McNemar"),
    )  # fmt: skip
    rows = tuple(
        (
            result.metric,
            say.number(result.items),
            share(result.reference, say),
            share(result.candidate, say),
            share(result.difference, say, sign=True),
            ends(result.interval, say),
            "-" if result.gain is None else say.number(result.gain),
            "-" if result.loss is None else say.number(result.loss),
            "-" if result.mcnemar is None else say.number(Decimal(repr(result.mcnemar)), 3),
        )
        for result in results
    )
    return Table(columns, rows, numeric=(1, 2, 3, 4, 5, 6, 7, 8))


def _unjudged(comparison: Comparison, say: Say) -> Table:
    columns = (say("metric"), say("arm"), say("not answered"), say("truncated"), say("not parsable"), say("counts as"))
    rows = []
    for result in comparison.results:
        for arm, counts, fate in (
            ("reference", result.of_reference, say("left out")),
            ("candidate", result.of_candidate, say("wrong")),
        ):
            figures = (counts.missing, counts.truncated, counts.unparsable)
            rows.append((result.metric, say(ARM_LABELS[arm]), *(say.number(figure) for figure in figures), fate))
    return Table(columns, tuple(rows), numeric=(2, 3, 4))


def _controls(comparison: Comparison, say: Say) -> Table:
    rows = tuple(
        (
            say(ARM_LABELS[arm]),
            result.metric,
            say(WORD_LABELS[result.state]),
            share(result.difference, say, sign=True),
            ends(result.interval, say),
        )
        for arm, results in comparison.controls.items()
        for result in results
    )
    return Table(
        (say("control"), say("metric"), say("answer"), say("difference"), say("interval")), rows, numeric=(3, 4)
    )


def share(value: float | None, say: Say, *, sign: bool = False) -> str:
    """A share or a difference to four decimals; with `sign`, a gain has its plus."""
    if value is None:
        return say("unknown")
    shown = say.number(Decimal(repr(value)), 4)
    return f"+{shown}" if sign and value > 0 else shown


def ends(found: Interval | None, say: Say, *, sign: bool = True) -> str:
    """Both ends of an interval."""
    if found is None:
        return say("none")
    return f"{share(found.lower, say, sign=sign)} .. {share(found.upper, say, sign=sign)}"
