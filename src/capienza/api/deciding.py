"""`decide`: verdicts and shortlist over offers, for one card."""

from __future__ import annotations

import datetime
import zoneinfo
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from capienza import __version__
from capienza.api.models import model_of
from capienza.api.offer_files import offers as read_all
from capienza.api.sizing import facts_of
from capienza.card.load import load_card
from capienza.card.model import Calendar, Card, Placement
from capienza.catalog.capacity import capacity_of
from capienza.catalog.devices import load_devices
from capienza.catalog.notes import Findings
from capienza.catalog.offer import Document, GpuClaim, Offer, Price
from capienza.decide.case import Shortfall, Sizing, SizingFor, gpus_in_all
from capienza.decide.engine import decide as decisions_of
from capienza.decide.run import Decided, Judged
from capienza.errors import Message
from capienza.evidence.record import Record
from capienza.evidence.store import read_folder
from capienza.ledger.capacity import capacity_from
from capienza.ledger.ledger import Ledger
from capienza.predict.answer import open_notes
from capienza.predict.gpu import NO_GPU, GpuFacts
from capienza.predict.model import Model, resident_format
from capienza.predict.sizing import ask_engine, build_ledger, cache_format

if TYPE_CHECKING:
    from capienza.predict.sizing import Answer

CATALOGUE = "catalogue"
ONE_FOR_ALL = ("gpu:0",)


def decide(
    card: str | Path | Card,
    offers: Sequence[str | Path] | None = None,
    evidence: str | Path | None = None,
    now: datetime.datetime | None = None,
) -> Decided:
    """Judge the offers of some files (None: every GPU of the catalogue) against a card.

    `evidence` is a folder of records, `now` the moment that decides what is expired (None: this one).
    Raises `InputError` for documents that cannot be used, `UnreachableError` for a model that is not there,
    `VerificationError` for a record that does not verify.
    """
    read_card = card if isinstance(card, Card) else load_card(card)
    model = model_of(read_card)
    moment = now or datetime.datetime.now(datetime.UTC)
    record_findings: list[Message] = []
    records = read_folder(Path(evidence), record_findings) if evidence is not None else ()
    findings = Findings()
    candidates = catalogue_offers(read_card) if offers is None else read_all(offers, findings, zone_of(read_card))
    sizing = sizing_for(read_card, model)
    return Decided(
        card=read_card,
        model=model,
        now=moment,
        records=records,
        judged=_judged(read_card, candidates, sizing, records, moment),
        sizing_for=sizing,
        findings=findings,
        record_findings=tuple(record_findings),
    )


def zone_of(card: Card) -> datetime.tzinfo | None:
    """The time zone of bare dates, in the offers as in the card itself; None where the card states none."""
    name = card.calendar.timezone if isinstance(card.calendar, Calendar) else None
    return None if name is None else zoneinfo.ZoneInfo(name)


def sizing_for(card: Card, model: Model) -> SizingFor:
    """Prediction and capacity for a GPU claim; one ledger for each number and kind of GPUs.

    The GPUs of a copy that is not cut into stages all hold the same, so one of them stands for all.
    """
    staged = isinstance(card.placement, Placement) and card.placement.pipeline_parallel > 1
    alike = None if staged else ONE_FOR_ALL
    known: dict[tuple[int, GpuFacts], tuple[Ledger, Answer | None]] = {}
    others = card.host.others_use_bytes if card.host is not None and card.host != "none" else None
    architecture = model.architecture

    def sizing(claim: GpuClaim, gpus: int) -> Sizing:
        gpu = capacity_of(claim)
        facts = facts_of(gpu) if card.engine is not None else NO_GPU
        found = known.get((gpus, facts))
        if found is None:
            answer = ask_engine(card, model, gpus, facts)
            found = known[gpus, facts] = build_ledger(card, model, gpus, alike, answer), answer
        ledger, answer = found
        return Sizing(
            ledger=ledger,
            capacity=capacity_from(gpu, others or 0),
            refusals=(*([model.refusal] if model.refusal else []), *model.differences, *open_notes(card, answer)),
            max_positions=None if architecture is None else architecture.max_position_embeddings,
            max_positions_source="max_position_embeddings",
            stretched_positions=None if architecture is None else architecture.stretched_positions,
            model_name=card.model.id or (Path(card.model.path).name if card.model.path else None),
            revision=model.revision,
            weight_format=card.weights.format or resident_format(model),
            kv_format=cache_format(card, model) if card.task == "inference" else None,
            source=f"capienza {__version__}",
            shortfall=shortfall_of(answer),
        )

    return sizing


def shortfall_of(answer: Answer | None) -> Shortfall | None:
    """The engine's pool beside the load that it does not hold at once; None where it does, or where that is open."""
    from capienza.predict.served import EngineAnswer

    if not isinstance(answer, EngineAnswer):
        return None
    rank = answer.served.tightest
    pool, required = rank.offer.pool_bytes, rank.required
    if pool is not None and required is not None and (answer.is_refused or required.expected > pool):
        return Shortfall(
            engine=answer.engine, pool_bytes=pool, required_bytes=required.expected, is_refused=answer.is_refused
        )
    return Shortfall(engine=answer.engine) if rank.queues else None


def catalogue_offers(card: Card) -> Iterator[Offer]:
    """Every GPU of the catalogue as a candidate: no seller, no price, as many cards as the card places a copy on."""
    document = Document(id="capienza device catalogue", version=__version__)
    for device in load_devices().values():
        yield Offer(
            id=device.key,
            provider=CATALOGUE,
            gpu=GpuClaim(name_raw=device.name, candidates=(device.key,)),
            cards=gpus_in_all(card),
            price=Price(kind="total"),
            document=document,
        )


def _judged(
    card: Card, offers: Iterable[Offer], sizing: SizingFor, records: tuple[Record, ...], now: datetime.datetime
) -> Iterator[Judged]:
    """Each offer beside its decision: the engine takes the next offer only after it has decided on this one."""
    current: list[Offer] = []

    def taken() -> Iterator[Offer]:
        for offer in offers:
            current[:] = [offer]
            yield offer

    for decision in decisions_of(card, taken(), sizing, records, now):
        yield Judged(current[0], decision)
