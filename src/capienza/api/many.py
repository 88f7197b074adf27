"""`decide` for many cards: offers are read once and stay in memory, and the cards are shared out over processes."""

from __future__ import annotations

import datetime
import gc
import os
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

import msgspec

from capienza.api.deciding import sizing_for
from capienza.api.models import model_of
from capienza.api.offer_files import offers as read_all
from capienza.card.load import load_card
from capienza.card.model import Card
from capienza.catalog.notes import Findings
from capienza.catalog.offer import Offer
from capienza.decide.documents import Shown, document_of
from capienza.decide.engine import decide_possible
from capienza.decide.server import contradictions
from capienza.decide.summary import Brief, in_short
from capienza.errors import Message, UnreachableError, template
from capienza.evidence.folder import read_folder
from capienza.evidence.record import Record
from capienza.predict.storage import volumes_of

ENDED = template(
    "decide.process-ended",
    "a process that decided some of the cards was ended from outside",
    "The machine may be short of memory: decide fewer cards at a time.",
)
WORTH_PROCESSES_BYTES = 4 * 2**20
"""Of offers: below that starting a process takes longer than deciding."""


def decide_many(
    cards: Sequence[str | Path | Card],
    offers: Sequence[str | Path],
    evidence: str | Path | None = None,
    now: datetime.datetime | None = None,
) -> tuple[Brief, ...]:
    """Judge the same offers against several cards: each card's counts and the first places of its lists.

    Arguments and errors are those of `decide`; `UnreachableError` as well when the machine ends a process.
    """
    read_cards = [card if isinstance(card, Card) else load_card(card) for card in cards]
    record_findings: list[Message] = []
    records = read_folder(Path(evidence), record_findings) if evidence is not None else ()
    moment = now or datetime.datetime.now(datetime.UTC)
    answers = _shared_out(read_cards, offers, records, moment)
    return tuple(msgspec.structs.replace(answer, record_findings=tuple(record_findings)) for answer in answers)


def _shared_out(
    cards: list[Card], offers: Sequence[str | Path], records: tuple[Record, ...], now: datetime.datetime
) -> list[Brief]:
    """The answers in the order of the cards, by as many processes as there are processors."""
    workers = min(os.cpu_count() or 1, len(cards))
    size_bytes = sum(Path(path).stat().st_size for path in offers if Path(path).is_file())
    if workers == 1 or size_bytes < WORTH_PROCESSES_BYTES:
        return _decide_share(cards, offers, records, now)
    # Every worker takes each n-th card.
    shares = [cards[number::workers] for number in range(workers)]
    arguments = zip(*((share, offers, records, now) for share in shares), strict=True)
    try:
        with ProcessPoolExecutor(workers, get_context("spawn"), initializer=_begin) as pool:
            answers = list(pool.map(_decide_share, *arguments))
    except BrokenProcessPool as error:
        raise UnreachableError(ENDED()) from error
    return [answers[number % workers][number // workers] for number in range(len(cards))]


def _begin() -> None:
    """Ctrl-C reaches every process of a terminal, and a worker has nothing to say about it.

    A run makes few cycles and lives for seconds, so collecting garbage costs more than it frees.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.disable()


def _decide_share(
    cards: list[Card], offers: Sequence[str | Path], records: tuple[Record, ...], now: datetime.datetime
) -> list[Brief]:
    return list(_decide(cards, offers, records, now))


def _decide(
    cards: list[Card], offers: Sequence[str | Path], records: tuple[Record, ...], now: datetime.datetime
) -> Iterator[Brief]:
    """The answers, card by card. Bare dates of an offer are in the time zone of the card, so each zone reads anew."""
    known: dict[datetime.tzinfo | None, tuple[list[Offer], Findings]] = {}
    shown: dict[int, Shown] = {}

    def document_for(offer: Offer, now: datetime.datetime) -> Shown:
        """What an offer's document says does not depend on the card; the offers stay in memory all the while."""
        found = shown.get(id(offer))
        if found is None:
            found = shown[id(offer)] = document_of(offer, now)
        return found

    for card in cards:
        zone = card.zone
        if zone not in known:
            findings = Findings()
            known[zone] = list(read_all(offers, findings, zone)), findings
        read, findings = known[zone]
        model = model_of(card)
        decisions = decide_possible(card, read, sizing_for(card, model), records, now, document_for)
        yield in_short(card, decisions, findings, contradictions(card, volumes_of(card, model)))
