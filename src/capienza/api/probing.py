"""`doctor`: what the machine is that this runs on."""

from __future__ import annotations

import datetime
from pathlib import Path

import msgspec

from capienza.evidence.record import Record
from capienza.evidence.store import write_record
from capienza.probe.environment import Environment, environment_record, probe_environment


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """The environment; with a folder of records also the record that was written there."""

    environment: Environment
    record: Record | None = None
    path: Path | None = None


def doctor(
    evidence: str | Path | None = None,
    offer: str | None = None,
    provider: str | None = None,
    now: datetime.datetime | None = None,
) -> Diagnosis:
    """Probe this machine, and with `evidence` write the probe into that folder of records.

    `offer` and `provider` say on which offer it ran; they enter the record's scope. Raises `UnreachableError` when the
    folder cannot be written.
    """
    environment = probe_environment(Path())
    if evidence is None:
        return Diagnosis(environment=environment)
    moment = (now or datetime.datetime.now(datetime.UTC)).replace(microsecond=0)
    record = environment_record(environment, moment, offer, provider)
    return Diagnosis(environment=environment, record=record, path=write_record(record, Path(evidence)))
