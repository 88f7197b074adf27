"""What the server must have, of what the card states and what is computed: the larger one counts.

Legend: F provable floor of one copy of the workload in all (`predict.storage`); N the most nodes that the copy may lie
on. Some node then holds at least F / N, rounded up; on one node that is F. An offer states memory and disk per node.
A need below the floor is a contradiction of the card. Nothing but the floor is compared: what is expected may not come.
"""

from __future__ import annotations

from typing import Any

import msgspec

from capienza.card.load import place_of
from capienza.card.model import NONE, Card, Host, Placement
from capienza.catalog.offer import Offer
from capienza.decide.case import gpus_in_all, gpus_per_copy, gpus_to_spread
from capienza.decide.used import Job
from capienza.errors import Message, template
from capienza.ledger.ledger import Total
from capienza.plan.steps import Plan
from capienza.predict.storage import Volumes

BELOW_COMPUTED = template(
    "decide.stated-below-computed",
    "{place}: the card states {stated_bytes}, and the calculation proves at least {floor_bytes}; the larger counts",
    "correct it; capienza size CARD --format md shows what it is made of",
)


class ServerNeed(msgspec.Struct, frozen=True):
    """One need of the server: its field in the card, what the card states, and the floor of the calculation."""

    field: str
    stated: int | str | None
    floor_bytes: int


class ServerNeeds(msgspec.Struct, frozen=True):
    """All needs by field, and the volumes that fees are paid for (None: not known)."""

    by_field: dict[str, ServerNeed]
    storage_bytes: int | None
    egress_bytes: int | None


def server_needs(card: Card, volumes: Volumes | None) -> dict[str, ServerNeed]:
    """Memory, disk and download by their field; a floor that nobody computed is 0."""
    host = card.host if isinstance(card.host, Host) else Host()
    totals = (volumes.ram_total, volumes.storage_total, volumes.egress_total) if volumes else (None,) * 3
    stated = {"host.ram": host.ram_bytes, "host.storage": host.storage_bytes, "host.egress": host.egress_bytes}
    return {
        field: ServerNeed(field, value, total.amount.floor if total else 0)
        for (field, value), total in zip(stated.items(), totals, strict=True)
    }


def contradictions(card: Card, volumes: Volumes) -> tuple[Message, ...]:
    """Needs that the card states below what is computed, at their line of the card."""
    nodes = most_nodes(card)
    return tuple(
        BELOW_COMPUTED(
            place=str(place_of(card.file, need.field)) if card.file else need.field,
            stated_bytes=need.stated,
            floor_bytes=floor,
        )
        for need in server_needs(card, volumes).values()
        for floor in (need.floor_bytes if need.field == "host.egress" else share(need.floor_bytes, nodes),)
        if isinstance(need.stated, int) and need.stated < floor
    )


def most_nodes(card: Card, offer: Offer | None = None) -> int:
    """The most nodes that one copy may lie on. Without an offer, and without a placement, it is one server."""
    copy = gpus_to_spread(card, offer) if offer is not None else gpus_per_copy(card)
    placement = card.placement
    inside = max(placement.tensor_parallel, placement.expert_parallel) if isinstance(placement, Placement) else 1
    most = max(copy // inside, 1)
    if offer is None or most == 1:
        return most
    per_node = gpus_of_a_node(offer)
    return max(1, min(most, -(-offer.gpus // per_node))) if per_node else most


def gpus_of_a_node(offer: Offer) -> int | None:
    """GPUs in one node, stated or from the number of nodes; nothing follows from lots and cards."""
    if offer.gpus_per_node is not None or not offer.nodes or offer.gpus % offer.nodes:
        return offer.gpus_per_node
    return offer.gpus // offer.nodes


def share(floor_bytes: int, nodes: int) -> int:
    """What the fullest of the nodes holds at least."""
    return -(-floor_bytes // nodes)


def known_needs(shared: dict[object, Any], card: Card, volumes: Volumes | None) -> ServerNeeds:
    """The needs and volumes of one card class, worked out once: offers are many."""
    key = "server-needs"
    if key not in shared:
        needs = server_needs(card, volumes)
        storage, egress = needs["host.storage"], needs["host.egress"]
        shared[key] = ServerNeeds(
            needs,
            _planned(storage, card, volumes.storage_total if volumes else None),
            _planned(egress, card, volumes.egress_total if volumes else None),
        )
    known: ServerNeeds = shared[key]
    return known


def job_of(shared: dict[object, Any], card: Card, plan: Plan, volumes: Volumes | None) -> Job:
    """What an offer is priced for: the hours of the plan, volumes and GPUs; worked out once for a card class."""
    key = "job"
    if key not in shared:
        needs = known_needs(shared, card, volumes)
        shared[key] = Job(
            hours=plan.hours,
            open_steps=tuple(step.name for step in plan.steps if step.planned is None),
            storage_bytes=needs.storage_bytes,
            egress_bytes=needs.egress_bytes,
            gpus=gpus_in_all(card),
        )
    job: Job = shared[key]
    return job


def _planned(need: ServerNeed, card: Card, total: Total | None) -> int | None:
    """What a fee by volume is paid for: as stated (`none` is nothing at all), else as computed, and never below that.

    None while the figure is not exact: a bill must not exclude by what is only expected.
    """
    stated = 0 if NONE in (need.stated, card.host) else need.stated
    if isinstance(stated, int):
        return max(stated, need.floor_bytes)
    return need.floor_bytes if total is not None and total.is_complete and total.amount.is_exact else None
