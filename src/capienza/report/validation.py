"""The predictor against measured cases, as a document and as JSON (`capienza.validate/1`)."""

from __future__ import annotations

from typing import Any

from capienza.i18n.translator import Say
from capienza.report.blocks import Document, Heading, Paragraph, Table
from capienza.report.tool import TOOL
from capienza.validate.groups import Group
from capienza.validate.run import Validation
from capienza.validate.scored import Scored

VALIDATE_SCHEMA = "capienza.validate/1"
COUNTED = ("kv_tokens", "gpu_blocks", "max_concurrency")
"""Quantities that are no bytes, with or without `_from_pool`."""


def validation_data(validation: Validation) -> dict[str, Any]:
    """Every row and group; `error` is (expected - measured) / measured, a fraction."""
    return {
        "schema": VALIDATE_SCHEMA,
        "tool": TOOL,
        "rows": [_row_data(row) for row in validation.rows],
        "groups": [_group_data(group) for group in validation.groups],
    }


def _row_data(row: Scored) -> dict[str, Any]:
    return {
        "id": row.id,
        "file": row.file,
        "engine": row.engine,
        "arch": row.arch,
        "format": row.weight_format,
        "model": row.model,
        "method": row.method,
        "family": row.family,
        "quantity": row.quantity,
        "predicted": {"floor": row.floor, "expected": row.expected, "ceiling": row.ceiling, "word": row.word},
        "measured": row.measured,
        "error": row.error,
        "covered": row.is_covered,
        "status": row.status,
        "reason": row.reason,
    }


def _group_data(group: Group) -> dict[str, Any]:
    names = (
        "quantity", "by", "n", "skipped", "flagged", "median", "p95", "max", "bias", "coverage", "coverage_elsewhere",
        "width", "words",
    )  # fmt: skip
    return {name: getattr(group, name) for name in names}


def validation_document(validation: Validation, say: Say) -> Document:
    """The groups, then every row that was not skipped, worst first within its quantity."""
    skipped: dict[str, int] = {}
    for row in validation.rows:
        if row.status == "skipped":
            skipped[row.reason] = skipped.get(row.reason, 0) + 1
    blocks: list[Any] = [
        Heading(say("Predicted against measured"), 1),
        _groups_table(validation, say),
        Heading(say("Rows")),
        _rows_table([row for row in validation.rows if row.status != "skipped"], say),
    ]
    if skipped:
        reasons = sorted(skipped.items(), key=lambda item: (-item[1], item[0]))
        blocks += [
            Heading(say("Skipped")),
            Table(
                columns=(say("rows"), say("reason")),
                rows=tuple((str(count), say(reason)) for reason, count in reasons),
                numeric=(0,),
            ),
        ]
    blocks.append(
        Paragraph(
            say(
                "An error is (expected - measured) / measured. Covered: the measured figure lies in the predicted "
                "range. Ceilings come from cases of other models. Elsewhere: covered by ceilings from other "
                "publishers' cases alone. Width: (ceiling - expected) / expected, the median."
            )
        )
    )
    return tuple(blocks)


def _groups_table(validation: Validation, say: Say) -> Table:
    rows = tuple(
        (
            " ".join((group.quantity, *group.by.values())),
            str(group.n),
            _share(group.median),
            _share(group.p95),
            _share(group.max),
            _share(group.bias),
            _share(group.coverage),
            _share(group.coverage_elsewhere),
            _share(group.width),
            str(group.skipped),
            str(group.flagged),
            ", ".join(f"{word} {count}" for word, count in sorted(group.words.items())),
        )
        for group in validation.groups
    )
    columns = (
        say("quantity"), "n", say("median"), "p95", say("max"), say("bias"), say("covered"), say("elsewhere"),
        say("width"), say("skipped"), say("flagged"), say("words"),
    )  # fmt: skip
    return Table(columns=columns, rows=rows, numeric=tuple(range(1, 11)), whole=(0,))


def _rows_table(rows: list[Scored], say: Say) -> Table:
    ordered = sorted(rows, key=lambda row: (row.name, -abs(row.error or 0), row.id))
    return Table(
        columns=(
            say("quantity"), say("case"), say("expected"), say("ceiling"), say("measured"), say("error"),
            say("covered"), say("note"),
        ),
        rows=tuple(
            (
                row.quantity,
                row.id,
                row.word or _amount(row, row.expected, say),
                _amount(row, row.ceiling, say),
                say("out of memory") if row.name == "oom" else _amount(row, row.measured, say),
                _share(row.error),
                "" if row.is_covered is None else say("yes") if row.is_covered else say("no"),
                f"{say(row.status)}: {row.reason}" if row.status == "flagged" else "",
            )
            for row in ordered
        ),
        numeric=(2, 3, 4, 5),
    )  # fmt: skip


def _amount(row: Scored, value: float | str | None, say: Say) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if row.name.removesuffix("_from_pool") in COUNTED:
        return say.number(round(value)) if value >= 1000 else f"{value:.2f}"
    return say.size(int(value))


def _share(value: float | None) -> str:
    return "" if value is None else f"{value * 100:+.2f} %" if value < 0 else f"{value * 100:.2f} %"
