"""A run of `decide`: what was asked, and the offers beside their decisions."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

import msgspec

from capienza.card.model import Card
from capienza.catalog.notes import Findings
from capienza.catalog.offer import Offer
from capienza.decide.case import SizingFor
from capienza.decide.verdict import Decision
from capienza.errors import Message
from capienza.evidence.record import Record
from capienza.predict.model import Model


class Judged(msgspec.Struct, frozen=True):
    """An offer with its decision."""

    offer: Offer
    decision: Decision


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """A run of `decide`. `judged` is consumed once, offer by offer; `findings` are complete after that.

    `sizing_for` gives again the prediction that an offer was judged by.
    """

    card: Card
    model: Model
    now: datetime.datetime
    records: tuple[Record, ...]
    judged: Iterator[Judged]
    sizing_for: SizingFor
    findings: Findings
    record_findings: tuple[Message, ...]
