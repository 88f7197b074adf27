"""Is an output JSON of the wanted form?"""

from __future__ import annotations

import json
from typing import Any

from capienza.errors import InputError, MissingPartError, Place, shortened, template
from capienza.quality.metrics.overlap import NOT_INSTALLED

BAD_SCHEMA = template(
    "quality.bad-schema", "the schema of item {id} is no JSON schema: {problem}", "correct it before freezing"
)
_FENCE = "```"
_MOST = 2**20


def is_valid(schema: dict[str, Any], output: str) -> bool:
    """Does the output, or the one fenced block in it, hold JSON that the schema accepts?"""
    try:
        value = json.loads(_unfenced(output[:_MOST]), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    from referencing.exceptions import Unresolvable

    try:
        return bool(_validator(schema).is_valid(value))
    except RecursionError:
        return False
    except Unresolvable as error:
        problem = shortened(str(error), 120)
        raise InputError(BAD_SCHEMA(id="?", problem=problem)) from error


def _refuse(word: str) -> None:
    """NaN and Infinity are Python's, not JSON's."""
    raise ValueError(word)


def check_schema(schema: dict[str, Any], identity: str, place: Place) -> None:
    """Raises `InputError` at `place` where the schema is none, or refers to something outside itself."""
    import jsonschema

    try:
        _validator(schema).check_schema(schema)
    except (jsonschema.SchemaError, RecursionError) as error:
        problem = shortened(getattr(error, "message", None) or "it is nested too deeply", 120)
        raise InputError(BAD_SCHEMA(id=shortened(identity, 60), problem=problem), place) from error
    _try(schema, identity, place)
    outside = next(_references(schema), None)
    if outside is not None:
        problem = f"$ref {shortened(outside, 60)}"
        raise InputError(BAD_SCHEMA(id=shortened(identity, 60), problem=problem), place)


def _try(schema: dict[str, Any], identity: str, place: Place) -> None:
    """Raises `InputError` for references that lead nowhere, or round in a circle: nothing could be judged."""
    from referencing.exceptions import Unresolvable

    probes: tuple[object, ...] = ({}, [], "", 0, None)
    for value in probes:
        try:
            _validator(schema).is_valid(value)
        except (RecursionError, Unresolvable) as error:
            problem = "$ref" if isinstance(error, RecursionError) else shortened(str(error), 120)
            raise InputError(BAD_SCHEMA(id=shortened(identity, 60), problem=problem), place) from error


def _references(schema: object) -> Any:
    """References that lead out of the schema: nothing is fetched for a comparison."""
    if isinstance(schema, dict):
        for key in ("$ref", "$dynamicRef", "$recursiveRef"):
            reference = schema.get(key)
            if isinstance(reference, str) and not reference.startswith("#"):
                yield reference
        for value in schema.values():
            yield from _references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _references(value)


def _unfenced(output: str) -> str:
    parts = output.split(_FENCE)
    if len(parts) != 3:
        return output
    first, _, rest = parts[1].partition("\n")
    return rest if first.strip().isalpha() or not first.strip() else parts[1]


def _validator(schema: dict[str, Any]) -> Any:
    try:
        from jsonschema.validators import validator_for
        from referencing import Registry
    except ImportError as error:
        raise MissingPartError(NOT_INSTALLED(metric="json_schema", package="jsonschema")) from error
    # A registry of its own fetches nothing, where the default one asks the network.
    return validator_for(schema)(schema, registry=Registry())
