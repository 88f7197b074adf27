"""Decisions in the states that a page has to show, made in memory by the real engine, with one fixed moment."""

from __future__ import annotations

import datetime
import sys
from pathlib import Path

import msgspec

from capienza.catalog.notes import Findings
from capienza.decide.dossier import Dossier, dossier_of
from capienza.decide.engine import decide
from capienza.decide.gather import Gathering
from capienza.decide.run import Decided, Judged
from capienza.decide.summary import summarise
from capienza.predict.model import Model

sys.path.insert(0, str(Path(__file__).parents[1] / "decide"))
from decide_world import (
    CLAIM,
    GOOD_RECORDS,
    NOW,
    at,
    change,
    make_card,
    make_offer,
    make_oom,
    make_sizing,
    make_waiver,
)

from capienza.catalog.offer import Document

HOSTILE = (
    "</table><script>alert(1)</script>",
    '" onmouseover="alert(1)',
    "<img src=http://evil.example/x.png onerror=alert(1)>",
    "]( javascript:alert(1) ) <b>|`x`|",
    "{{ 7 * 7 }}{% include 'page.css' %}",
    "\x1b[31m\u202egnp.exe\x00",
    "a" * 3000,
)

GOOD_ADDRESS = "https://good.example/a?b=c"
SOURCES = (
    "javascript:alert(1)",
    "data:text/html,x",
    GOOD_ADDRESS,
    'https://x.example/"><b>',
    "https://x.example/ onclick=x",
    " JaVaScRiPt:alert(1)",
    "http://user@x.example/\\",
)


def decided_on(card=None, offers=None, records=GOOD_RECORDS, sizing=None, now: datetime.datetime = NOW) -> Decided:
    """A run over these offers."""
    card, offers, sizing = card or make_card(), offers or [make_offer()], sizing or make_sizing()
    decisions = decide(card, offers, lambda *_: sizing, records, now)
    return Decided(
        card=card,
        model=Model(name=card.model.id or "model", revision=card.model.revision),
        now=now,
        records=tuple(records),
        judged=(Judged(offer, decision) for offer, decision in zip(offers, decisions, strict=True)),
        sizing_for=lambda *_: sizing,
        findings=Findings(),
        record_findings=(),
    )


def dossier_on(**parts) -> Dossier:
    """The dossier of such a run."""
    decided = decided_on(**parts)
    with Gathering() as gathering:
        summary = summarise(decided.card, [one.decision for one in gathering.watch(decided.judged)])
        return dossier_of(decided, summary, gathering)


def offers_named(*names: str, **fields):
    """The same offer under several names, each with a document of its own."""
    return [make_offer(id=name, document=Document(id=f"{name}-sheet", retrieved=at(1)), **fields) for name in names]


def states() -> dict[str, Dossier]:
    """One dossier for each state of a page."""
    waived = make_waiver("placement", expires=at(20))
    silent = offers_named("rtx4090-1x3d", host=make_offer().host.__class__())
    hostile = [
        change(
            offer,
            provider=offer.id,
            gpu=change(CLAIM, name_raw=offer.id),
            document=Document(id=offer.id, version=offer.id, retrieved=at(1), source=source),
            notes=offer.id,
        )
        for offer, source in zip(offers_named(*HOSTILE), SOURCES, strict=True)
    ]
    two = offers_named("first", "second")
    return {
        "selected": dossier_on(offers=[*two, *offers_named("dear", price=_price("400.00"))]),
        "nothing": dossier_on(records=()),
        "excluded": dossier_on(records=(make_oom(),)),
        "waived": dossier_on(offers=silent, records=(*GOOD_RECORDS, waived)),
        "hostile": dossier_on(card=make_card(name=HOSTILE[0], file=HOSTILE[1]), offers=hostile),
        "unpredicted": dossier_on(sizing=make_sizing(ledger=None, capacity=None), records=()),
    }


def _price(amount: str):
    from decimal import Decimal

    from capienza.units import Money

    return msgspec.structs.replace(make_offer().price, money=Money(Decimal(amount), "USD"))
