"""The outputs of each arm as records: what answered, under which plan, when, and the digest of the file."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path

from capienza import __version__
from capienza.evidence.claims import ANSWERED, ARM, BEGUN, ENDED, SAID
from capienza.evidence.record import Claim, Record, Scope, Subject
from capienza.evidence.store import seal
from capienza.quality.answers import Answers
from capienza.quality.corpus import digest
from capienza.quality.plan import Arm, QualityPlan
from capienza.quality.served import Served, arm_of


def outputs_record(
    plan: QualityPlan, arm: Arm, answers: Answers, file: str | Path, plan_id: str, now: datetime.datetime
) -> Record:
    """The record of one arm's file.

    Args:
        plan: The frozen plan.
        arm: Whose outputs they are.
        answers: What the file holds.
        file: The file, for its digest.
        plan_id: The id of the plan's record.
        now: The date of the record where the file does not say when its last answer came.
    """
    sha256, answering = digest(str(file)), arm_of(plan, arm)
    times = [answer.at for answer in answers.by_item.values() if answer.at is not None]
    last = datetime.datetime.fromtimestamp(max(times), datetime.UTC) if times else None
    return seal(
        Record(
            kind="outputs",
            version="1",
            date=last or now.astimezone(datetime.UTC),
            subject=(
                Subject(name=plan.corpus.name, sha256=plan.corpus.sha256),
                Subject(name=Path(file).name, sha256=sha256),
            ),
            scope=Scope(
                model=answering.model,
                revision=answering.revision,
                task=plan.task,
                weight_format=answering.weight_format,
                kv_format=answering.kv_format,
                engine=answering.engine,
                engine_version=answering.engine_version,
                configuration=answering.configuration,
            ),
            claims=tuple(_claims(arm, answers, last)),
            method="measure",
            mode="automatic",
            producer={"tool": "capienza", "version": __version__, "class": "evaluation"},
            inputs=(plan_id, f"sha256:{sha256}"),
        )
    )


def _claims(arm: Arm, answers: Answers, last: datetime.datetime | None) -> Iterator[Claim]:
    yield Claim(quantity=ARM, value=arm)
    yield Claim(quantity=ANSWERED, value=len(answers.by_item))
    if answers.header.date is not None:
        yield Claim(quantity=BEGUN, value=answers.header.date.astimezone(datetime.UTC).isoformat())
    if last is not None:
        yield Claim(quantity=ENDED, value=last.isoformat())
    yield from _said(answers.header.served or Served())


def _said(served: Served) -> Iterator[Claim]:
    """What the server said of itself."""
    for name in served.models:
        yield Claim(quantity=f"{SAID}model", value=name)
    if served.version:
        yield Claim(quantity=f"{SAID}version", value=served.version)
    if served.chat_template_sha256:
        yield Claim(quantity=f"{SAID}chat_template_sha256", value=served.chat_template_sha256)
    if served.weights_bytes is not None:
        yield Claim(quantity=f"{SAID}weights_bytes", value=served.weights_bytes, unit="B")
