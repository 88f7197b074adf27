"""A run of `decide`: what was asked, and the offers beside their decisions."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator

import msgspec

from capienza.card.model import Card
from capienza.catalog.notes import Findings
from capienza.catalog.offer import Offer
from capienza.decide.case import SizingFor
from capienza.decide.documents import offer_digest
from capienza.decide.record import decision_record
from capienza.decide.verdict import Decision
from capienza.errors import Message
from capienza.evidence.record import Record
from capienza.evidence.store import root
from capienza.predict.model import Model


class Judged(msgspec.Struct, frozen=True):
    """An offer with its decision."""

    offer: Offer
    decision: Decision


class Minutes:
    """What the record of a decision needs, taken down while the offers pass."""

    def __init__(self) -> None:
        self.decisions: list[Decision] = []
        self.offers: list[str] = []

    def passing(self, judged: Iterable[Judged]) -> Iterator[Judged]:
        """The same offers with their decisions, each taken down."""
        for one in judged:
            self.decisions.append(one.decision)
            self.offers.append(offer_digest(one.offer))
            yield one

    def record(self, card: Card, records: Iterable[Record], now: datetime.datetime) -> Record:
        """The sealed record, once all have passed."""
        return decision_record(card, self.decisions, root(self.offers), records, now)


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """A run of `decide`. `judged` is consumed once, offer by offer; `findings` are complete after that.

    So are the `minutes`, where the record of the decision is wanted.
    `card_findings`: needs that the card states below what is computed.
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
    card_findings: tuple[Message, ...] = ()
    minutes: Minutes | None = None
