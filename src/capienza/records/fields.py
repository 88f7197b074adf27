"""Every field of the form in which a person gives evidence, once: the reader, the templates and the page follow it.

A path names a field by its keys, as in a card. Examples are YAML.
"""

from __future__ import annotations

from typing import Any

from capienza.card.field import Field
from capienza.card.fields import MAX_COUNT, MAX_GPUS, MAX_TOKENS, ROOT, by_parent
from capienza.card.kinds import PROSE, WEIGHT_FORMAT, Kind, choice, text, whole
from capienza.card.moments import MOMENT, ZONE
from capienza.evidence.claims import DOCUMENT_SOURCES
from capienza.evidence.record import Scope
from capienza.evidence.vocabulary import COUNTERS, CRITERIA, MAX_RUNS, PHASES
from capienza.records.classes import CLASSES, FIDELITIES
from capienza.records.draft import VERSION, DocumentRef, Draft, DraftClaim, Tool
from capienza.records.kinds import CLAIM_VALUE, CONFIGURATION, DIGEST, DRIVER, RECORD_ID, or_any, words

_TOKENS = whole(1, MAX_TOKENS)
_COUNT = whole(1, MAX_COUNT)


def _mapping(build: Any) -> Kind:
    return Kind(text="keys and values", build=build)


FIELDS: tuple[Field, ...] = (
    Field("evidence", whole(1, 1_000_000), "Version of this form.", str(VERSION), required=True),
    Field("kind", choice(*CLASSES), "What is given as evidence.", "measurement", required=True),
    Field("version", text(), "Version of the document, or number of the run.", '"2026-11"'),
    Field("date", MOMENT, "When it was issued, read or measured.", "2026-11-30T12:00Z", required=True),
    Field("expires", MOMENT, "When it stops counting; a day counts to its end.", "2026-12-31T00:00Z"),
    Field("timezone", ZONE, "The time zone of bare dates.", "Europe/Rome"),
    Field("source", choice(*reversed(DOCUMENT_SOURCES)), "What kind of sheet it is; this is its rank.", "contract"),
    Field("fidelity", choice(*FIDELITIES), "How it was calculated; this is its rank.", "analytic"),
    Field("document", _mapping(DocumentRef), "The document itself.", "{name: order 17, file: order-17.pdf}"),
    Field("document.name", text(4000), "Its name; for an evaluation the corpus as the card names it.", "order 17"),
    Field("document.uri", text(2000), "Its address.", "https://example.com/order-17"),
    Field("document.file", text(4000), "The file, seen from this one; its digest is taken.", "order-17.pdf"),
    Field(
        "document.sha256",
        DIGEST,
        "Its digest, where the file is not here.",
        f'"{"0" * 64}"',
    ),
    Field("tool", _mapping(Tool), "The program that made it, such as the server that was measured.", "{name: vllm}"),
    Field("tool.name", text(), "Its name.", "vllm", required=True),
    Field("tool.version", text(), "The version of that program.", '"0.11.2"'),
    Field("author", text(), "Who answers for it.", "A. Engineer"),
    Field("reason", PROSE, "Why.", "pilot accepted by the owner of the service"),
    Field("note", PROSE, "What else must be known.", "second of three runs"),
    Field("scope", _mapping(Scope), "What it speaks of; what is left out is not covered.", "{gpu: rtx4090}"),
    Field("scope.model", text(), "The model.", "Qwen/Qwen3-8B"),
    Field("scope.revision", text(), "Its commit.", "9c925d64d72725edaf899c6cb9c377fd0709d9c5"),
    Field("scope.task", choice("inference", "fine-tuning"), "What is done with it.", "inference"),
    Field("scope.weight_format", or_any(WEIGHT_FORMAT), "The format that the weights have in memory.", "bf16"),
    Field("scope.kv_format", text(), "The format of the cache.", "bf16"),
    Field("scope.engine", text(), "The program.", "vllm"),
    Field("scope.engine_version", text(), "Its version.", '"0.11.2"'),
    Field("scope.gpu", text(), "The GPU: a key or a name of the catalogue.", "rtx4090"),
    Field("scope.gpus", whole(1, MAX_GPUS), "GPUs of one copy of the model.", "1"),
    Field(
        "scope.driver",
        DRIVER,
        "The driver: one version, or a range of them.",
        '">=550,<590"',
    ),
    Field("scope.provider", text(), "The provider, where it speaks of one alone.", "example"),
    Field("scope.offer", text(), "The offer, where it speaks of one alone.", "rtx4090-1x3d"),
    Field("scope.tokens", _TOKENS, "Tokens of one sequence, prompt and output together.", "8192"),
    Field("scope.concurrency", _COUNT, "Sequences served at the same time.", "4"),
    Field("scope.microbatch", _COUNT, "Sequences in one pass on each GPU.", "1"),
    Field("scope.configuration", CONFIGURATION, "What else moves memory; defaults when nothing was set.", "defaults"),
    Field(
        "claims",
        Kind(text="list of statements", build=DraftClaim, many=True),
        "What it states, one quantity each.",
        "[{quantity: outcome, value: completed}]",
    ),
    Field("claims.quantity", text(), "What is stated.", "outcome", required=True),
    Field(
        "claims.value",
        CLAIM_VALUE,
        "The value.",
        "completed",
        required=True,
    ),
    Field("claims.unit", text(), "The unit of a number.", "EUR/USD"),
    Field("claims.phase", choice(*PHASES), "The phase of a reading.", "decode"),
    Field("claims.counter", choice(*COUNTERS), "The counter that was read.", "device"),
    Field("claims.gpu", whole(0, MAX_GPUS - 1), "Which GPU, from 0.", "0"),
    Field("claims.basis", text(2000), "What the value rests on; the thresholds of a metric.", "min=0.82"),
    Field("criteria", words(choice(*CRITERIA), "[quality]"), "The criteria that are let pass.", "[quality]"),
    Field(
        "withdraws",
        words(RECORD_ID, "[0a1b...]"),
        "The ids of the records that it withdraws, or their first digits.",
        '["' + "0" * 64 + '"]',
    ),
    Field("planned_runs", whole(1, MAX_RUNS), "How many runs there will be, failed ones included.", "3"),
    Field(
        "inputs",
        words(text(4000), "[log.txt]"),
        "What it was made from: ids of records or their first digits, or files whose digest is taken.",
        "[log.txt]",
    ),
)

FORM_FIELD = Field(ROOT, _mapping(Draft), "One piece of evidence.", "")


CHILDREN: dict[str, dict[str, Field]] = by_parent(FIELDS)
"""The fields of each mapping, by its path and then by key."""
