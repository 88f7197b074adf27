"""`plan`: the calendar of a card and, on offers, its time and its bill."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path

from capienza.api.deciding import sizing_for
from capienza.api.models import model_of
from capienza.api.offer_files import offers as read_all
from capienza.card.load import load_card
from capienza.card.model import Card
from capienza.catalog.notes import Findings
from capienza.decide.engine import cases_of
from capienza.decide.planning import Planned, calendar_alone, offer_plans
from capienza.errors import Message
from capienza.evidence.folder import read_folder


def plan(
    card: str | Path | Card,
    offers: Sequence[str | Path] | None = None,
    evidence: str | Path | None = None,
    now: datetime.datetime | None = None,
) -> Planned:
    """The steps of a card with their hours, and what each offer of some files makes of them (None: no offers).

    `evidence` is a folder of records, `now` the moment that the plan starts from (None: this one).
    Raises `InputError` for documents that cannot be used, `VerificationError` for a record that does not verify, and
    with offers `UnreachableError` for a model that is not there.
    """
    read_card = card if isinstance(card, Card) else load_card(card)
    moment = now or datetime.datetime.now(datetime.UTC)
    record_findings: list[Message] = []
    records = read_folder(Path(evidence), record_findings) if evidence is not None else ()
    findings = Findings()
    planned = None
    if offers is not None:
        candidates = read_all(offers, findings, read_card.zone)
        sizing = sizing_for(read_card, model_of(read_card))
        planned = tuple(offer_plans(cases_of(read_card, candidates, sizing, records, moment)))
    return Planned(
        card=read_card,
        now=moment,
        alone=calendar_alone(read_card, records, moment),
        offers=planned,
        findings=findings,
        record_findings=tuple(record_findings),
    )
