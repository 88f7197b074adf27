"""A form as it was written, before files are looked at and the record is sealed."""

from __future__ import annotations

from decimal import Decimal

import msgspec

from capienza.card.moments import Moment
from capienza.evidence.record import Scope

VERSION = 1
"""Version of the form."""


class DocumentRef(msgspec.Struct, frozen=True, kw_only=True):
    """The document that a record was read from: a name, an address, a file here, or its digest."""

    name: str | None = None
    uri: str | None = None
    file: str | None = None
    sha256: str | None = None


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """The program that made what is recorded."""

    name: str
    version: str | None = None


class DraftClaim(msgspec.Struct, frozen=True, kw_only=True):
    """One statement as it is written."""

    quantity: str
    value: str | int | Decimal | bool
    unit: str | None = None
    phase: str | None = None
    counter: str | None = None
    gpu: int | None = None
    basis: str | None = None


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A whole form, each value as it is written."""

    evidence: int = VERSION
    kind: str
    version: str = "1"
    date: Moment
    expires: Moment | None = None
    timezone: str | None = None
    source: str | None = None
    fidelity: str | None = None
    document: DocumentRef | None = None
    tool: Tool | None = None
    author: str | None = None
    reason: str | None = None
    note: str | None = None
    scope: Scope = Scope()
    claims: tuple[DraftClaim, ...] = ()
    criteria: tuple[str, ...] = ()
    withdraws: tuple[str, ...] = ()
    planned_runs: int | None = None
    inputs: tuple[str, ...] = ()
