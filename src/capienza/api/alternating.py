"""`alternatives`: exactly one change each from a card on a GPU or an offer."""

from __future__ import annotations

import datetime
import difflib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from capienza.api.deciding import CATALOGUE, catalogue_offers
from capienza.api.models import model_of
from capienza.api.offer_files import offers as read_all
from capienza.api.sizing import facts_of, gpus_of, margin_bytes, read_card, split_gpu
from capienza.card.model import Card, Host, Placement
from capienza.catalog.asked import claim_of
from capienza.catalog.capability import traits_of
from capienza.catalog.capacity import capacity_of
from capienza.catalog.notes import Findings
from capienza.catalog.offer import GpuClaim, Offer
from capienza.decide.alternatives.answer import Alternatives
from capienza.decide.alternatives.find import find
from capienza.decide.alternatives.gpu import Gpu
from capienza.decide.alternatives.predicted import predictor
from capienza.decide.alternatives.scene import Scene
from capienza.decide.case import gpus_to_spread
from capienza.errors import Message, Place, UsageError, template, with_suggestion
from capienza.evidence.folder import read_folder
from capienza.evidence.record import Record
from capienza.evidence.standing import standing
from capienza.ledger.capacity import capacity_from, for_training
from capienza.ledger.phase import OTHER_NAMES, Phase
from capienza.predict.sizing import ask_training

GPU_OR_OFFER = template(
    "alternatives.gpu-or-offer", "--gpu and --offer both say where the card runs", "give one of them"
)
OFFER_OF_WHAT = template(
    "alternatives.offer-of-what", "--offer names an offer, and no file of offers is given", "add --offers FILE"
)
NO_SUCH_OFFER = template(
    "alternatives.no-such-offer", "no offer has the id {found}", "capienza offers list shows the ids"
)
NO_SUCH_PHASE = template(
    "alternatives.no-such-phase", "there is no phase {found}; accepted: {accepted}", "take one of these for --failed"
)
USUAL_GPUS = 8
"""GPUs that a placement may use where none are counted."""


def alternatives(
    card: str | os.PathLike[str] | Card,
    gpu: str | None = None,
    *,
    offer: str | None = None,
    offers: Sequence[str | Path] | None = None,
    failed: str | None = None,
    evidence: str | Path | None = None,
    now: datetime.datetime | None = None,
) -> Alternatives:
    """What else could be tried for a card, one change each, sorted by predicted fit and then by what it invalidates.

    The card runs on `gpu` (a name, "L40Sx2" where two are at hand) or on the offer of that id in `offers`; other GPUs
    are those of `offers`, else of the catalogue. `failed` is the phase that failed, `evidence` a folder of records,
    `now` the moment that decides which of them are expired.

    Raises `UsageError` for options that contradict each other or the card and for names that are not there,
    `InputError` for documents that cannot be used and for a GPU that is not known.
    """
    phase = None if failed is None else phase_named(failed)
    if gpu is not None and offer is not None:
        raise UsageError(GPU_OR_OFFER())
    if offer is not None and not offers:
        raise UsageError(OFFER_OF_WHAT())
    read = read_card(card)
    findings: list[Message] = []
    records = () if evidence is None else read_folder(Path(evidence), findings)
    model = model_of(read)
    known = [] if not offers else list(read_all(offers, Findings(), read.zone))
    current, gpus, available = _place(read, gpu, offer, known)
    others = [] if current is None else known or list(catalogue_offers(read))
    alike = [one for one in others if _is_as_now(read, one, gpus)]
    larger, not_larger = _larger(read, current, alike)
    margin = margin_bytes(read)
    scene = Scene(
        card=read,
        model=model,
        gpu=current,
        gpus=gpus,
        available=available,
        now=predictor(read, model, margin)(current, gpus),
        margin_bytes=margin,
        larger=larger,
        not_larger=not_larger,
        spread_otherwise=len(others) - len(alike),
        training=trained.recipe if (trained := ask_training(read, model, gpus)) else None,
    )
    return Alternatives(
        scene=scene,
        found=find(scene, _counting(records, now), phase),
        offer=offer,
        failed=phase,
        findings=tuple(findings),
    )


OPTIMIZER_STEP = "optimizer_step"
"""What `diagnose` answers of an update, which is the first where it fails: the optimizer's states are made there."""


def phase_named(text: str) -> Phase:
    """The phase of that name. Raises `UsageError` with all of them."""
    name = text.strip().casefold().replace("-", "_").replace(" ", "_")
    if name == OPTIMIZER_STEP:
        return Phase.OPTIMIZER_STEP_FIRST
    if name in tuple(Phase) or name in OTHER_NAMES:
        return OTHER_NAMES.get(name) or Phase(name)
    near = difflib.get_close_matches(name[:40], tuple(Phase), n=1, cutoff=0.6)
    message = NO_SUCH_PHASE(found=text[:40], accepted=tuple(Phase))
    raise UsageError(with_suggestion(message, near[0] if near else None), Place("--failed"))


def _place(card: Card, gpu: str | None, offer: str | None, known: list[Offer]) -> tuple[Gpu | None, int, int]:
    """The GPU that the card runs on, the GPUs of one copy, and those at hand."""
    if offer is not None:
        found = next((one for one in known if one.id == offer), None)
        if found is None:
            raise UsageError(NO_SUCH_OFFER(found=offer[:60]))
        return _gpu(card, found.gpu, (found.id,)), gpus_to_spread(card, found), found.gpus
    if gpu is None:
        return None, gpus_of(card, None), USUAL_GPUS
    name, asked = split_gpu(gpu)
    stated = gpus_of(card, None)
    # More than a copy needs are at hand for other divisions; with fewer it would be another configuration.
    gpus = stated if isinstance(card.placement, Placement) and (asked or 0) > stated else gpus_of(card, asked)
    return _gpu(card, claim_of(name), (), name), gpus, max(gpus, USUAL_GPUS if asked is None else asked)


def _gpu(card: Card, claim: GpuClaim, offers: tuple[str, ...], name: str = "") -> Gpu:
    known = capacity_of(claim)
    others = card.host.others_use_bytes if isinstance(card.host, Host) else None
    capacity = capacity_from(known, others or 0)
    return Gpu(
        name=name or claim.name_raw,
        claim=claim,
        capacity=for_training(capacity) if card.task == "fine-tuning" else capacity,
        facts=facts_of(known, traits_of(claim)),
        offers=offers,
    )


def _is_as_now(card: Card, offer: Offer, gpus: int) -> bool:
    """Is a copy spread as now on this offer? Over another number of GPUs would be a second change."""
    return offer.provider == CATALOGUE or gpus_to_spread(card, offer) == gpus <= offer.gpus


def _larger(card: Card, current: Gpu | None, offers: Iterable[Offer]) -> tuple[tuple[Gpu, ...], int]:
    """The kinds of GPU that are known to offer more memory, by name, and how many others there are."""
    kinds: dict[GpuClaim, list[str]] = {}
    for one in offers:
        kinds.setdefault(one.gpu, []).extend([] if one.provider == CATALOGUE else [one.id])
    if current is None:
        return (), 0
    capacity = current.capacity
    least = capacity.largest_usable_bytes if capacity.smallest_usable_bytes is None else capacity.smallest_usable_bytes
    found, others = [], 0
    for claim, ids in kinds.items():
        if claim == current.claim:
            continue
        gpu = _gpu(card, claim, tuple(sorted(ids)))
        usable = gpu.capacity.smallest_usable_bytes
        if usable is None or (least is not None and usable <= least):
            others += 1
        else:
            found.append(gpu)
    return tuple(sorted(found, key=lambda one: (one.name, one.offers))), others


def _counting(records: tuple[Record, ...], now: datetime.datetime | None) -> tuple[Record, ...]:
    return standing(records, now or datetime.datetime.now(datetime.UTC)).counting
