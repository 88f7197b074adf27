"""One offer in front of a criterion: the card, the sizing of its card class, and the records that may speak.

A `Sizing` is what the predictors and the catalogue say of one kind of GPU; it is asked for once for all offers
that share it. A criterion reads a `Case` and no clock, file or network.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from capienza.card.model import Card, Placement
from capienza.catalog.capability import GpuTraits
from capienza.catalog.offer import GpuClaim, Offer
from capienza.catalog.selection import Combination
from capienza.decide.cost import Cost
from capienza.decide.verdict import EvidenceRef
from capienza.errors import Message
from capienza.evidence.record import Record, Scope
from capienza.evidence.standing import Standing
from capienza.ledger.capacity import Capacity
from capienza.ledger.ledger import Ledger
from capienza.plan.steps import Plan
from capienza.predict.storage import Volumes
from capienza.truth import Truth


class RuleFinding(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule of the catalogue says of the combination. Satisfied is necessary, never sufficient.

    `gpu` None: of every GPU that the name may mean. `evidence` None: no rule could be applied, for that reason.
    `is_note`: it stands in no one's way and changes something, such as the speed.
    """

    truth: Truth
    reason: Message
    evidence: EvidenceRef | None
    gpu: str | None = None
    is_note: bool = False


class Shortfall(msgspec.Struct, frozen=True, kw_only=True):
    """Why an engine would not run the required load at once: a pool that is too small, or None: its settings.

    `is_refused`: the pool would not even let it start.
    """

    engine: str
    pool_bytes: int | None = None
    required_bytes: int = 0
    is_refused: bool = False


class Sizing(msgspec.Struct, frozen=True, kw_only=True):
    """Prediction and capacity for one GPU claim and a number of GPUs.

    `ledger` or `capacity` None: refused, with the reason in `refusals`. Identity fields are as resolved: the
    model's name, commit and resident formats. `stretched_positions` is the length that rope_scaling reaches beyond
    `max_positions`. `context_bytes` is what the driver's context takes on one GPU, `shortfall` a
    pool that the load does not fit into at once. `volumes` is what the server must hold (None: not computed);
    `stored_weight_format` and `model_kv_format` are those of the model as published, the reference of its quality.
    `rules` is what the catalogue says of `combination`; `traits` what rules look at, by the names of the needs.
    `readings` are the records that the capacity rests on, `capacity_notes` what is to be said of them.
    """

    ledger: Ledger | None = None
    capacity: Capacity | None = None
    refusals: tuple[Message, ...] = ()
    max_positions: int | None = None
    max_positions_source: str = ""
    stretched_positions: int | None = None
    model_name: str | None = None
    revision: str | None = None
    weight_format: str | None = None
    kv_format: str | None = None
    context_bytes: int | None = None
    shortfall: Shortfall | None = None
    rules: tuple[RuleFinding, ...] = ()
    volumes: Volumes | None = None
    stored_weight_format: str | None = None
    model_kv_format: str | None = None
    combination: Combination | None = None
    traits: dict[str, GpuTraits] = {}
    source: str = ""
    readings: tuple[EvidenceRef, ...] = ()
    capacity_notes: tuple[Message, ...] = ()


SizingFor = Callable[[GpuClaim, int], Sizing]


class Evidence:
    """The records that count, found by the quantities they state or by the offer they name."""

    def __init__(self, standing: Standing) -> None:
        self.standing = standing
        self.weak = standing.weak
        self.counting = standing.counting
        self.set_aside = standing.set_aside
        self.unfinished = standing.unfinished
        self.withdrawn = standing.withdrawn
        self._by_quantity = _index(self.counting)
        self.waivers = tuple(record for record in self.counting if record.kind == "waiver")
        self.plans = tuple(record for record in self.counting if record.kind == "plan")
        heard = (*self.counting, *(record for record, _ in self.withdrawn))
        self.offers = frozenset(record.scope.offer for record in heard if record.scope.offer)
        self.providers = frozenset(record.scope.provider for record in heard if record.scope.provider)
        self.states_driver = any(record.scope.driver for record in heard)

    @functools.cached_property
    def in_full(self) -> Evidence:
        """What would count if no record had been withdrawn, and no plan or source of one were missing."""
        back = [record for record, _ in self.withdrawn]
        counting = tuple(sorted((*self.counting, *back), key=lambda record: record.id))
        set_aside = tuple(one for one in self.set_aside if one not in self.withdrawn)
        ended = self.standing.ended
        weak = {identity: (reason,) for identity, reason in ended.items()}
        return Evidence(Standing(counting=counting, weak=weak, ended=ended, set_aside=set_aside))

    @functools.cached_property
    def is_plain(self) -> bool:
        """Is nothing missing, withdrawn, weak or waived? Then records say all there is to say by themselves."""
        return not (self.unfinished or self.curtailed or self.waivers)

    @functools.cached_property
    def curtailed(self) -> tuple[tuple[Record, tuple[Message, ...]], ...]:
        """The records that do not speak, or not in full, though nothing but other records keeps them from it."""
        ended = self.standing.ended
        weak = (
            (record, self.weak[record.id])
            for record in self.counting
            if record.id in self.weak and record.id not in ended
        )
        return (*weak, *((record, (reason,)) for record, reason in self.withdrawn))

    def about(self, *quantities: str) -> tuple[Record, ...]:
        """Counting records with a claim on any of these, waivers apart, sorted by id."""
        found = {r.id: r for quantity in quantities for r in self._by_quantity.get(quantity, ())}
        return tuple(found[identity] for identity in sorted(found))

    def aside(self, *quantities: str) -> tuple[Message, ...]:
        """Why records on these quantities do not count at all."""
        wanted = set(quantities)
        return tuple(
            reason for record, reason in self.set_aside if any(claim.quantity in wanted for claim in record.claims)
        )


class Case(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What a criterion judges. `shared` keeps what is worked out once for all offers of one card class."""

    card: Card
    offer: Offer
    sizing: Sizing
    needs: tuple[Scope, ...]
    """What evidence must cover, one for each GPU that the seller's name may mean; never empty."""
    evidence: Evidence
    now: datetime.datetime
    shared: dict[object, Any]
    document: EvidenceRef | None
    """The document the offer was read from; None when there is none that counts now, with the reason beside."""
    document_problem: Message | None
    plan: Plan
    cost: Cost


def name_of_file(card: Card) -> str | None:
    """The last part of the card's path, as texts name it; None for a card that no file holds."""
    return card.file.replace("\\", "/").rpartition("/")[2] if card.file else None


def gpus_per_copy(card: Card) -> int:
    """GPUs that one copy of the model, or one training run, is divided over; 1 when the card states no placement."""
    return card.gpus_per_copy


def gpus_to_spread(card: Card, offer: Offer) -> int:
    """GPUs that one copy may be spread over: all of the offer while the card states no placement.

    Figure, scope and texts of the offer are all about this many: the even share over all of them is what the
    fullest GPU holds at least under whatever placement is chosen later.
    """
    return offer.gpus if card.placement is None else gpus_per_copy(card)


def is_placement_open(card: Card, offer: Offer) -> bool:
    """Does the card leave open over how many of the offer's GPUs one copy is spread? One GPU leaves no choice."""
    return card.placement is None and offer.gpus > 1


def gpus_in_all(card: Card) -> int:
    """GPUs that the card asks for: all copies together.

    `gpus` may already count the data-parallel shards of one training run; then it is the total.
    """
    placement = card.placement
    if not isinstance(placement, Placement):
        return 1
    copy = gpus_per_copy(card)
    divided = placement.tensor_parallel * placement.pipeline_parallel * placement.data_parallel
    return copy if copy == divided else copy * placement.data_parallel


def _index(records: Iterable[Record]) -> dict[str, list[Record]]:
    index: dict[str, list[Record]] = {}
    for record in records:
        if record.kind != "waiver":
            for quantity in {claim.quantity for claim in record.claims}:
                index.setdefault(quantity, []).append(record)
    return index
