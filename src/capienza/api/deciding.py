"""`decide`: verdicts and shortlist over offers, for one card."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from capienza import __version__
from capienza.api.models import model_of
from capienza.api.offer_files import offers as read_all
from capienza.api.sizing import facts_of
from capienza.card.load import load_card
from capienza.card.model import Card, Placement
from capienza.catalog.capability import traits_of
from capienza.catalog.capacity import capacity_of
from capienza.catalog.devices import load_devices
from capienza.catalog.notes import Findings
from capienza.catalog.offer import Document, GpuClaim, Offer, Price
from capienza.decide.case import Shortfall, Sizing, SizingFor, gpus_in_all
from capienza.decide.engine import decide as decisions_of
from capienza.decide.need import gpu_names, model_name
from capienza.decide.ruling import rule_findings
from capienza.decide.run import Decided, Judged, Minutes
from capienza.decide.server import contradictions
from capienza.errors import Message
from capienza.evidence.folder import read_folder
from capienza.evidence.record import Record
from capienza.evidence.store import write_record
from capienza.ledger.capacity import capacity_from
from capienza.ledger.ledger import Ledger
from capienza.predict.answer import open_notes
from capienza.predict.combination import combination_of
from capienza.predict.gpu import NO_GPU, GpuFacts
from capienza.predict.model import Model, resident_format
from capienza.predict.sizing import ask_engine, ask_training, build_ledger, cache_format
from capienza.predict.storage import Volumes, volumes_of

if TYPE_CHECKING:
    from capienza.predict.sizing import Answer
    from capienza.predict.training.answer import TrainingAnswer

CATALOGUE = "catalogue"
ONE_FOR_ALL = ("gpu:0",)


def decide(
    card: str | Path | Card,
    offers: Sequence[str | Path] | None = None,
    evidence: str | Path | None = None,
    now: datetime.datetime | None = None,
    keep: bool = False,
) -> Decided:
    """Judge the offers of some files (None: every GPU of the catalogue) against a card.

    `evidence` is a folder of records, `now` the moment that decides what is expired (None: this one). With `keep`, what
    `keep_decision` needs is taken down while the offers pass.
    Raises `InputError` for documents that cannot be used, `UnreachableError` for a model that is not there,
    `VerificationError` for a record that does not verify.
    """
    read_card = card if isinstance(card, Card) else load_card(card)
    record_findings: list[Message] = []
    records = read_folder(Path(evidence), record_findings) if evidence is not None else ()
    moment = now or datetime.datetime.now(datetime.UTC)
    findings = Findings()
    candidates = candidates_of(read_card, offers, findings)
    minutes = Minutes() if keep else None
    return decided_with(read_card, candidates, records, moment, findings, tuple(record_findings), minutes)


def candidates_of(card: Card, offers: Sequence[str | Path] | None, findings: Findings) -> Iterator[Offer]:
    """The offers of some files; every GPU of the catalogue where there are none."""
    return catalogue_offers(card) if offers is None else read_all(offers, findings, card.zone)


def decided_with(
    card: Card,
    offers: Iterable[Offer],
    records: tuple[Record, ...],
    now: datetime.datetime,
    findings: Findings,
    record_findings: tuple[Message, ...] = (),
    minutes: Minutes | None = None,
) -> Decided:
    """As `decide`, with records that are read already, and offers that may be; `findings` are about those."""
    model = model_of(card)
    sizing = sizing_for(card, model)
    judged = _judged(card, offers, sizing, records, now)
    return Decided(
        card=card,
        model=model,
        now=now,
        records=records,
        judged=judged if minutes is None else minutes.passing(judged),
        sizing_for=sizing,
        findings=findings,
        card_findings=contradictions(card, volumes_of(card, model)),
        record_findings=record_findings,
        minutes=minutes,
    )


def keep_decision(decided: Decided, evidence: str | Path) -> tuple[Record, Path]:
    """Write the record of a decision whose offers have all passed into a folder of records.

    Raises `UnreachableError` when it cannot be written, `ValueError` for a run without `keep`.
    """
    if decided.minutes is None:
        message = "the decision was made without keep"
        raise ValueError(message)
    record = decided.minutes.record(decided.card, decided.records, decided.now)
    return record, write_record(record, Path(evidence))


def sizing_for(card: Card, model: Model) -> SizingFor:
    """Prediction and capacity for a GPU claim; one ledger for each number and kind of GPUs.

    The GPUs of a copy that is not cut into stages all hold the same, so one of them stands for all.
    """
    staged = isinstance(card.placement, Placement) and card.placement.pipeline_parallel > 1
    alike = None if staged else ONE_FOR_ALL
    known: dict[tuple[int, GpuFacts], tuple[Ledger, Answer | None, Volumes]] = {}
    trainings: dict[int, TrainingAnswer | None] = {}
    volumes = volumes_of(card, model)
    others = card.host.others_use_bytes if card.host is not None and card.host != "none" else None
    architecture, combination = model.architecture, combination_of(card, model)

    def sizing(claim: GpuClaim, gpus: int) -> Sizing:
        gpu = capacity_of(claim)
        traits = traits_of(claim)
        facts = facts_of(gpu, traits) if card.engine is not None or card.task == "fine-tuning" else NO_GPU
        found = known.get((gpus, facts))
        if found is None:
            answer = ask_engine(card, model, gpus, facts)
            if gpus not in trainings:
                trainings[gpus] = ask_training(card, model, gpus)
            ledger = build_ledger(card, model, gpus, alike, answer, facts, trainings[gpus])
            needs = volumes if answer is None else volumes_of(card, model, answer)
            found = known[gpus, facts] = ledger, answer, needs
        ledger, answer, needs = found
        by_need = dict(zip(gpu_names(claim), traits, strict=True))
        return Sizing(
            ledger=ledger,
            capacity=capacity_from(gpu, others or 0),
            refusals=(
                *([model.refusal] if model.refusal else []),
                *model.differences,
                *open_notes(card, answer, trainings.get(gpus)),
            ),
            max_positions=None if architecture is None else architecture.max_position_embeddings,
            max_positions_source="max_position_embeddings",
            stretched_positions=None if architecture is None else architecture.stretched_positions,
            model_name=model_name(card),
            revision=model.revision,
            weight_format=card.weights.format or resident_format(model),
            kv_format=cache_format(card, model) if card.task == "inference" else None,
            source=f"capienza {__version__}",
            shortfall=shortfall_of(answer),
            volumes=needs,
            stored_weight_format=resident_format(model),
            model_kv_format=model.dtype if card.task == "inference" else None,
            rules=() if combination is None else rule_findings(combination, by_need),
            combination=combination,
            traits=by_need,
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
