"""What evidence a change invalidates, by the scopes that `decide` asks of it.

A criterion is touched where one of the fields of its scope becomes another, or where rules speak of another
combination. A record is lost where it covers the need before and not after: it is judged by the fields of its kind.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from capienza.decide.alternatives.predicted import Predicted
from capienza.decide.criteria.compatibility import FIELDS as COMPATIBILITY_FIELDS
from capienza.decide.criteria.quality import FIELDS as QUALITY_FIELDS
from capienza.decide.quality_scope import for_quality
from capienza.decide.runs import RUN_FIELDS
from capienza.evidence.record import Record, RecordKind, Scope
from capienza.evidence.scope import first_gap

Subject = Literal["quality", "compatibility", "measurements"]
FIELDS: dict[Subject, tuple[str, ...]] = {
    "quality": QUALITY_FIELDS,
    "compatibility": COMPATIBILITY_FIELDS,
    "measurements": RUN_FIELDS,
}
COMBINATION, METHOD = "combination", "method"
SUBJECT_OF: dict[RecordKind, Subject] = {
    "measurement": "measurements",
    "quality_result": "quality",
    "outputs": "quality",
    "document": "compatibility",
}
"""The kinds of records that a configuration can leave behind, and what they speak of."""


class Lost(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of evidence that no longer counts: the fields of its scope that become others, and the records."""

    subject: Subject
    fields: tuple[str, ...]
    records: tuple[str, ...] = ()


def lost(
    before: Predicted, after: Predicted, records: Iterable[Record], *, is_other_method: bool = False
) -> tuple[Lost, ...]:
    """What the change invalidates; every subject of which a field changes, with the records that are lost.

    `is_other_method`: the model is trained otherwise, so that all that was shown of its quality is another model's.
    """
    gone = [record for record in records if _is_lost(record, before.needs, after.needs)]
    found = []
    for subject, fields in FIELDS.items():
        changed = _changed(_asked(subject, before.needs), _asked(subject, after.needs))
        touched = [field for field in fields if field in changed]
        if subject == "compatibility" and before.subjects != after.subjects:
            touched.append(COMBINATION)
        if subject == "quality" and is_other_method:
            touched.append(METHOD)
        if touched:
            ids = tuple(sorted(record.id for record in gone if SUBJECT_OF.get(record.kind) == subject))
            found.append(Lost(subject=subject, fields=tuple(touched), records=ids))
    return tuple(found)


def _changed(before: tuple[Scope, ...], after: tuple[Scope, ...]) -> frozenset[str]:
    """The fields that are asked for with other values."""
    return frozenset(
        field
        for field in Scope.__struct_fields__
        if {getattr(need, field) for need in before} != {getattr(need, field) for need in after}
    )


def _is_lost(record: Record, before: tuple[Scope, ...], after: tuple[Scope, ...]) -> bool:
    subject = SUBJECT_OF.get(record.kind)
    if subject is None:
        return False
    fields = FIELDS[subject]
    if subject == "quality":
        record = msgspec.structs.replace(record, scope=for_quality(record.scope))
    return _covers(record, _asked(subject, before), fields) and not _covers(record, _asked(subject, after), fields)


def _asked(subject: Subject, needs: tuple[Scope, ...]) -> tuple[Scope, ...]:
    """What a subject asks of evidence: quality does not ask where memory lies."""
    return tuple(map(for_quality, needs)) if subject == "quality" else needs


def _covers(record: Record, needs: tuple[Scope, ...], fields: tuple[str, ...]) -> bool:
    return any(first_gap(record, need, fields) is None for need in needs)
