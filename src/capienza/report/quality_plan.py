"""A plan of a comparison, and what its corpus can show, as documents and as JSON."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from capienza.canon import plain
from capienza.i18n.translator import Say, mark
from capienza.quality.plan import Answering, QualityPlan
from capienza.report.blocks import Block, Document, Heading, Items, Paragraph, Table
from capienza.report.messages import message_data, sentence
from capienza.report.tool import TOOL

if TYPE_CHECKING:
    from capienza.api.qualifying import Frozen, Linted

LINT_SCHEMA, FREEZE_SCHEMA = "capienza.quality-lint/1", "capienza.quality-freeze/1"
ARM_LABELS = {
    "reference": mark("reference"),
    "reference_again": mark("reference again"),
    "candidate": mark("candidate"),
    "harmed": mark("harmed control"),
}
FIELD_LABELS = (
    ("model", mark("model")),
    ("revision", mark("revision")),
    ("weight_format", mark("weights")),
    ("kv_format", mark("cache")),
    ("engine", mark("engine")),
    ("engine_version", mark("version")),
    ("configuration", mark("configuration")),
)


def lint_data(found: Linted) -> dict[str, Any]:
    """What the corpus can show; power and needed items are null where nothing is known beforehand."""
    return {"schema": LINT_SCHEMA, "tool": TOOL, **_looked(found)}


def frozen_data(found: Frozen) -> dict[str, Any]:
    """The plan that was written."""
    plan = plain(found.linted.plan)
    plan["corpus"]["items"] = len(found.linted.corpus.items)
    return {
        "schema": FREEZE_SCHEMA,
        "tool": TOOL,
        "file": str(found.path),
        "record": found.record.id if found.record else None,
        "plan": plan,
        **_looked(found.linted),
    }


def _looked(found: Linted) -> dict[str, Any]:
    return {
        "items": len(found.corpus.items),
        "documents": found.corpus.clusters,
        "sizing": plain(found.lint.sizing),
        "problems": [message_data(message) for message in found.lint.problems],
        "remarks": [message_data(message) for message in (*found.lint.remarks, *found.findings)],
    }


def lint_document(found: Linted, say: Say) -> Document:
    """Power by metric, then what keeps the corpus from concluding, then remarks."""
    return (Heading(say("Quality: {name}", name=found.plan.name), 1), *_shown(found, say))


def frozen_document(found: Frozen, say: Say) -> Document:
    """What was fixed, where it lies, and what it can show."""
    plan = found.linted.plan
    kept = (
        say("Frozen as {id} in {file}; its record is {record}.", id=plan.id[:12], file=str(found.path),
            record=found.record.id[:12])
        if found.record
        else say("Frozen as {id} in {file}.", id=plan.id[:12], file=str(found.path))
    )  # fmt: skip
    blocks: list[Block] = [Heading(say("Quality: {name}", name=plan.name), 1), Paragraph(kept), arms_table(plan, say)]
    return (*blocks, *_shown(found.linted, say))


def arms_table(plan: QualityPlan, say: Say) -> Table:
    """What answers in each arm."""
    arms: tuple[tuple[str, Answering], ...] = (
        ("reference", plan.reference), ("candidate", plan.candidate), ("harmed", plan.harmed),
    )  # fmt: skip
    unknown = say("not stated")
    rows = tuple(
        (say(label), *(str(getattr(arm, field) or unknown) for _, arm in arms)) for field, label in FIELD_LABELS
    )
    return Table((say("what answers"), *(say(ARM_LABELS[name]) for name, _ in arms)), rows)


def _shown(found: Linted, say: Say) -> list[Block]:
    plan = found.plan
    by_name = {sizing.metric: sizing for sizing in found.lint.sizing}
    rows = []
    for metric in plan.metrics:
        sizing = by_name[metric.name]
        rows.append((
            metric.name,
            metric.kind,
            "-" if metric.max_regression is None else say.decimals(f"{metric.max_regression:f}"),
            "-" if metric.min is None else say.decimals(f"{metric.min:f}"),
            say.number(len(found.corpus.items)),
            say("not known beforehand") if sizing.power is None else say.number(Decimal(str(sizing.power)), 2),
            "-" if sizing.needed is None else say.number(sizing.needed),
        ))  # fmt: skip
    columns = (
        say("metric"), say("kind"), say("may lose"), say("at least"), say("items"), say("power"), say("items needed"),
    )  # fmt: skip
    blocks: list[Block] = [
        Table(columns, tuple(rows), numeric=(2, 3, 4, 5, 6)),
        Paragraph(
            say(
                "Power: the chance to conclude where the candidate is as good, if {share} of the items come out "
                "differently. Each end of an interval is wrong with rate {alpha}. Source documents: {documents}.",
                share=say.decimals(f"{plan.discordant_share:f}"),
                alpha=say.decimals(f"{plan.alpha:f}"),
                documents=say.number(found.corpus.clusters),
            )
        ),
    ]
    if found.lint.problems:
        problems = tuple(sentence(message, say) for message in found.lint.problems)
        blocks += [Heading(say("It cannot conclude")), Items(problems)]
    remarks = (*found.lint.remarks, *found.findings)
    if remarks:
        blocks += [Heading(say("Notes")), Items(tuple(sentence(message, say) for message in remarks))]
    return blocks
