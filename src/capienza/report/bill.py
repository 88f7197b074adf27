"""The bill of an offer, line by line: what each comes to at the least and as planned, and how."""

from __future__ import annotations

import re
from typing import Any

from capienza.decide.cost import Converted, Cost, CostPart
from capienza.i18n.translator import Say, mark
from capienza.report.blocks import Table
from capienza.report.labels import label
from capienza.report.messages import message_data
from capienza.units import Money

PART_LABELS = {
    "price": mark("price"),
    "fee.setup": mark("set-up"),
    "fee.storage": mark("storage"),
    "fee.egress": mark("outgoing traffic"),
    "fee.ingress": mark("incoming traffic"),
    "fee.ip": mark("IP address"),
    "fee.support": mark("support"),
    "fee.other": mark("other fee"),
    "tax": mark("tax"),
}
NODE, NODES = mark("node"), mark("nodes")
_NODES = re.compile(r"\b(\d+) node\b")


def bill_table(cost: Cost, say: Say, converted: Converted | None = None) -> Table:
    """One row a line, then the total. A line that is not known leaves the planned total unknown.

    `converted` is the total in the currency of the cap, where that is another one.
    """
    rows = [_row(part, say) for part in cost.components]
    total = (say("total"), _money(cost.minimum, say), _money(cost.planned, say), "")
    again = [converted_row(converted, say)] if converted else []
    columns = (say("line"), say("at the least"), say("as planned"), say("how"))
    return Table(columns=columns, rows=(*rows, total, *again), numeric=(1, 2), whole=(0, 1, 2))


def converted_row(converted: Converted, say: Say) -> tuple[str, str, str, str]:
    """The total in the currency of the cap, and the records whose rates it is by."""
    records = ", ".join(identity[:12] for identity in converted.records)
    name = say("total in {currency}", currency=converted.minimum.currency)
    how = say("at the rate of {records}", records=records)
    return name, _money(converted.minimum, say), _money(converted.planned, say), how


def cost_data(cost: Cost) -> dict[str, Any]:
    """The bill for a JSON document; its lines add up to its totals."""
    return {
        "minimum": cost.minimum,
        "planned": cost.planned,
        "is_exact": cost.is_exact,
        "missing": [message_data(message) for message in cost.missing],
        "notes": [message_data(message) for message in cost.notes],
        "components": cost.components,
    }


def _row(part: CostPart, say: Say) -> tuple[str, ...]:
    return (
        say(label(PART_LABELS, part.name)),
        _money(part.minimum, say),
        _money(part.planned, say),
        formula_text(part, say),
    )


def formula_text(part: CostPart, say: Say) -> str:
    """How a line comes about, in the language's numbers and words."""
    return _NODES.sub(
        lambda found: f"{found[1]} {say('node' if found[1] == '1' else 'nodes')}", say.decimals(part.formula)
    )


def _money(money: Money | None, say: Say) -> str:
    return say("unknown") if money is None else say.money(money)
