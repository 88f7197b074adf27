"""The classes of document that a person gives, and what kind of record each becomes.

Commercial sheets and software pages are `document` records, told apart by their source, which is their rank: catalogue,
public page, provider's API, then invoice and contract alike. Environment probes and measurements are `measurement`
records: they outrank documents, most of all when their scope names the offer. A calculation is a `prediction`, ranked
by its fidelity. An evaluation is a `quality_result`. A plan, a waiver and a withdrawal have no rank: they say which
other records count.
"""

from __future__ import annotations

import msgspec

from capienza.evidence.record import Method, Record, RecordKind

CLASS = "class"
"""The key of `Record.producer` that holds the class."""
SPECIAL = ("source", "fidelity", "claims", "criteria", "withdraws", "planned_runs")
"""Keys that are only for the classes that ask for them."""


class DocumentClass(msgspec.Struct, frozen=True):
    """One class: the record it becomes, how it was come by, and the keys it must have beside its kind and date.

    `optional`: keys of few classes that it may have as well.
    """

    kind: RecordKind
    method: Method
    required: tuple[str, ...]
    source: str | None = None
    optional: tuple[str, ...] = ()


_SIGNED = ("author", "reason")
CLASSES: dict[str, DocumentClass] = {
    "commercial_sheet": DocumentClass("document", "examine", ("source", "document", "scope", "claims")),
    "software_page": DocumentClass("document", "examine", ("document", "scope", "claims"), source="public_page"),
    "environment_probe": DocumentClass("measurement", "measure", ("claims",)),
    "calculation": DocumentClass("prediction", "compute", ("fidelity", "scope", "claims")),
    "measurement": DocumentClass("measurement", "measure", ("scope", "claims")),
    "evaluation": DocumentClass("quality_result", "measure", ("document", "scope", "claims")),
    "plan": DocumentClass("plan", "attest", ("planned_runs",), optional=("claims",)),
    "waiver": DocumentClass("waiver", "attest", (*_SIGNED, "expires", "criteria", "scope")),
    "supersedes": DocumentClass("supersedes", "attest", (*_SIGNED, "withdraws")),
    "invalidates": DocumentClass("invalidates", "attest", (*_SIGNED, "withdraws")),
}
FIDELITIES = ("arithmetic", "analytic", "trace")


def class_of(record: Record) -> str:
    """The class of a record; its kind when it does not name one that becomes this kind."""
    named = record.producer.get(CLASS, "")
    return named if named in CLASSES and CLASSES[named].kind == record.kind else record.kind


def may_have(name: str, key: str) -> bool:
    """May a document of this class have the key?"""
    return key not in SPECIAL or key in CLASSES[name].required or key in CLASSES[name].optional
