"""Disk, main memory and download of a workload: what is computed of them, and what the card states."""

from __future__ import annotations

from typing import Any

from capienza.card.model import Host
from capienza.i18n.translator import Say
from capienza.ledger.entry import Entry
from capienza.ledger.ledger import Total
from capienza.predict.answer import Sizing
from capienza.predict.storage import Volumes
from capienza.report.blocks import Block, Heading, Items, Table
from capienza.report.labels import ENTRY_LABELS, STATUS_LABELS, label
from capienza.report.size import needs_text, range_cells, status_name, total_cells
from capienza.report.size_data import entry_data, total_data


def server_blocks(sizing: Sizing, say: Say) -> list[Block]:
    """One table for all of them, and below it what is unknown."""
    volumes = sizing.volumes
    if volumes is None:
        return []
    host = sizing.card.host if isinstance(sizing.card.host, Host) else Host()
    groups = (
        (say("disk"), volumes.storage, volumes.storage_total, host.storage_bytes),
        (say("main memory"), volumes.ram, volumes.ram_total, host.ram_bytes),
        (say("download"), volumes.egress, volumes.egress_total, host.egress_bytes),
    )
    rows = tuple(row for name, entries, total, stated in groups for row in _rows(name, entries, total, stated, say))
    columns = (say("need"), say("entry"), say("floor"), say("expected"), say("ceiling"), say("origin"))
    unknown = {entry.name: entry for _, entries, _, _ in groups for entry in entries if entry.amount is None}
    blocks: list[Block] = [
        Heading(say("Server, for one copy of the model")),
        Table(columns=columns, rows=rows, numeric=(2, 3, 4)),
    ]
    if unknown:
        blocks.append(Items(tuple(_unknown(entry, say) for entry in unknown.values())))
    return blocks


def server_data(volumes: Volumes) -> dict[str, Any]:
    """The same in a JSON document."""
    return {
        name: {"entries": [entry_data(entry) for entry in entries], "total": total_data(total)}
        for name, entries, total in (
            ("storage", volumes.storage, volumes.storage_total),
            ("ram", volumes.ram, volumes.ram_total),
            ("egress", volumes.egress, volumes.egress_total),
        )
    }


def _rows(
    name: str, entries: tuple[Entry, ...], total: Total, stated: int | str | None, say: Say
) -> list[tuple[str, ...]]:
    rows = [
        (
            name,
            say(label(ENTRY_LABELS, entry.name)),
            *range_cells(entry.amount, say),
            say(STATUS_LABELS[status_name(entry)]),
        )
        for entry in entries
    ]
    card = say("not stated") if stated is None else stated if isinstance(stated, str) else say.size(stated)
    # A total of unknown entries alone is no "at least 0".
    cells = total_cells(total, say) if total.is_complete or total.amount.ceiling else range_cells(None, say)
    return [*rows, (name, say("together"), *cells, say("the card: {stated}", stated=card))]


def _unknown(entry: Entry, say: Say) -> str:
    return say(
        "{name}: needs {needs}; proof expected: {proof}",
        name=say(label(ENTRY_LABELS, entry.name)),
        needs=needs_text(entry, say),
        proof=say.message(entry.expected_proof) if entry.expected_proof else "",
    )
