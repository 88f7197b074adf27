"""The JSON Schema of a card, for editors: written from the same table that the loader follows.

It accepts every card that the loader accepts. The loader also refuses what a schema cannot say: sizes beyond 64 bits,
dates that do not exist, lengths out of order, a deadline before the start.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from capienza import yamlmarks
from capienza.card.field import Field
from capienza.card.fields import CARD, CHILDREN
from capienza.card.kinds import PROSE
from capienza.card.model import NONE
from capienza.card.rules import MODEL_SOURCES, NEEDED, ONLY_FOR, STEP_SOURCES
from capienza.yamlmarks import Node


def json_schema() -> dict[str, Any]:
    """The schema of a card file (JSON Schema 2020-12); every field has a description and an example."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Capienza workload card",
        **_field(CARD),
        "allOf": [_only_for(key, task) for key, task in ONLY_FOR.items()],
    }


def _field(field: Field) -> dict[str, Any]:
    """One field: what it may be, its description and its example."""
    schema = _accepted(field)
    if field.none:
        schema = {"anyOf": [{"const": NONE}, schema]}
    described = {"description": field.description, **schema}
    return described | {"examples": [_plain(yamlmarks.load(field.example))]} if field.example else described


def _accepted(field: Field) -> dict[str, Any]:
    kind = field.kind
    if kind.build is None:
        return kind.schema
    mapping = _mapping(field)
    if kind.many:
        return {"type": "array", "items": mapping}
    return {"anyOf": [kind.schema, mapping]} if kind.convert else mapping


def _mapping(field: Field) -> dict[str, Any]:
    children = CHILDREN.get(field.path, {})
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {key: _field(child) for key, child in children.items()},
        "required": [key for key, child in children.items() if child.required],
        "additionalProperties": _others(field, children),
    }
    needed = {_key(path): [_key(other)] for path, other in NEEDED.items() if _parent(path) == field.path}
    if needed:
        schema["dependentRequired"] = needed
    sources = [_key(path) for path in MODEL_SOURCES if _parent(path) == field.path]
    if sources:
        schema["oneOf"] = [{"required": [key]} for key in sources]
    steps = [_key(path) for path in STEP_SOURCES if _parent(path) == field.path]
    if steps:
        schema["anyOf"] = [{"required": [key]} for key in steps]
    return schema


def _others(field: Field, children: dict[str, Field]) -> dict[str, Any] | bool:
    """What a key that the table does not list may hold."""
    if field.kind.rest_kind:
        return field.kind.rest_kind.schema
    return {"type": "null"} if any(child.kind is PROSE for child in children.values()) else False


def _only_for(key: str, task: str) -> dict[str, Any]:
    return {"if": {"required": [key]}, "then": {"properties": {"task": {"const": task}}}}


def _key(path: str) -> str:
    return path.rpartition(".")[2]


def _parent(path: str) -> str:
    return path.rpartition(".")[0]


def _plain(node: Node) -> Any:
    """A tree of nodes as JSON values."""
    value = node.value
    if isinstance(value, dict):
        return {key: _plain(child) for key, child in value.items()}
    if isinstance(value, list):
        return [_plain(child) for child in value]
    if isinstance(value, Decimal):
        return int(value) if value == int(value) else float(value)
    return value
