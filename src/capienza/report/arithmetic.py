"""The plain calculator's answer, as a document and as JSON (`capienza.arithmetic/1`)."""

from __future__ import annotations

from typing import Any

from capienza.i18n.translator import Say
from capienza.ledger.arithmetic import PlainRow
from capienza.report.blocks import Document, Heading, Paragraph, Table
from capienza.report.tool import TOOL

ARITHMETIC_SCHEMA = "capienza.arithmetic/1"


def arithmetic_data(rows: tuple[PlainRow, ...], reserve_bytes: int | None) -> dict[str, Any]:
    """The plain calculator (`capienza.arithmetic/1`)."""
    return {
        "schema": ARITHMETIC_SCHEMA,
        "tool": TOOL,
        "reserve_bytes": reserve_bytes,
        "rows": [
            {
                "parameters": row.parameters,
                "bits": str(row.bits),
                "weights_only_bytes": row.weights_only_bytes,
                "indicative_envelope_bytes": row.indicative_envelope_bytes,
            }
            for row in rows
        ],
    }


def arithmetic_document(rows: tuple[PlainRow, ...], reserve_bytes: int | None, say: Say) -> Document:
    """The plain calculator."""
    columns = [say("bits"), say("weights only"), "GiB"]
    if reserve_bytes is not None:
        columns.append(say("with {reserve_bytes} reserve", reserve_bytes=reserve_bytes))
    table = []
    for row in rows:
        cells = [str(row.bits), say.size(row.weights_only_bytes, unit="B"), say.size(row.weights_only_bytes)]
        if row.indicative_envelope_bytes is not None:
            cells.append(say.size(row.indicative_envelope_bytes))
        table.append(tuple(cells))
    return (
        Heading(say("{count} parameters", count=say.number(rows[0].parameters)), 1),
        Table(columns=tuple(columns), rows=tuple(table), numeric=tuple(range(len(columns)))),
        Paragraph(
            say(
                "Weights only is parameters x bits with no hidden multiplier. It is not what a run needs: caches, "
                "activations, the engine's own memory, and in training gradients and optimizer states, come on top. "
                "The reserve is the one you chose; it proves nothing."
            )
        ),
    )
