"""The tensors behind an entry of a pass, which add up to it: as a table and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from capienza.i18n.translator import Say
from capienza.ledger.held import HeldRow
from capienza.ledger.phase import Phase
from capienza.report.blocks import Table

LAYER = "layer"


def held_table(rows: tuple[HeldRow, ...], say: Say) -> Table:
    """The tensors of a pass's highest moment, with their sum."""
    made = [
        (
            say("every layer") if one.part == LAYER else one.part,
            one.operation,
            " x ".join(map(str, one.shape)),
            str(one.item_bytes),
            str(one.each_bytes),
            str(one.num_each),
            str(one.layers),
            str(one.total_bytes),
        )
        for one in rows
    ]
    total = str(sum(one.total_bytes for one in rows))
    return Table(
        title=say("What is alive then: bytes each x number x layers"),
        columns=(
            say("part"),
            say("operation"),
            say("shape"),
            say("B per element"),
            say("bytes each"),
            say("number"),
            say("layers"),
            say("bytes"),
        ),
        rows=(*made, (say("in all"), "", "", "", "", "", "", total)),
        numeric=(3, 4, 5, 6, 7),
    )


def held_data(held: Mapping[Phase, tuple[HeldRow, ...]]) -> dict[str, Any]:
    """The same by phase; sizes in bytes, `total_bytes` = `each_bytes` x `number` x `layers`."""
    return {
        str(phase): [
            {
                "part": one.part,
                "operation": one.operation,
                "shape": list(one.shape),
                "item_bytes": one.item_bytes,
                "each_bytes": one.each_bytes,
                "number": one.num_each,
                "layers": one.layers,
                "total_bytes": one.total_bytes,
            }
            for one in rows
        ]
        for phase, rows in held.items()
    }
