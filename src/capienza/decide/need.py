"""What evidence has to cover: the scope that follows from the card, its sizing and one GPU."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath

from capienza.card.model import Card, Placement
from capienza.catalog.offer import GpuClaim, Offer
from capienza.decide.case import Sizing
from capienza.errors import Message, template
from capienza.evidence.claims import configuration_text
from capienza.evidence.drivers import is_version
from capienza.evidence.record import Scope

NOT_STATED = template(
    "decide.requirement-not-stated",
    "the card does not state {field}",
    "write {field} in the card; what is not needed of quality, placement, host, budget or calendar is written as none",
)

FIELD_IN_CARD = {
    "model": "model.id",
    "revision": "model.revision",
    "weight_format": "weights.format",
    "engine": "engine.name",
    "engine_version": "engine.version",
    "tokens": "tokens.required",
}
IDENTITY = ("model", "revision", "weight_format", "engine", "engine_version")
LOAD = {"inference": ("tokens", "concurrency"), "fine-tuning": ("tokens", "microbatch")}


def needs_of(
    card: Card,
    sizing: Sizing,
    claim: GpuClaim,
    gpus: int,
    provider: str | None = None,
    offer: str | None = None,
    driver: str | None = None,
) -> tuple[Scope, ...]:
    """One needed scope for each GPU that the seller's name may mean; `gpus` are those of one copy of the model.

    Provider, offer and driver are given only where some record speaks of them alone.
    """
    required = card.tokens.required
    engine = card.engine
    return tuple(
        Scope(
            model=sizing.model_name or model_name(card),
            revision=sizing.revision or card.model.revision,
            task=card.task,
            weight_format=sizing.weight_format or card.weights.format,
            kv_format=sizing.kv_format,
            engine=engine.name if engine else None,
            engine_version=engine.version if engine else None,
            gpu=gpu,
            gpus=gpus,
            driver=driver,
            provider=provider,
            offer=offer,
            tokens=required.total if required else None,
            concurrency=card.concurrency if card.task == "inference" else None,
            microbatch=card.microbatch if card.task == "fine-tuning" else None,
            configuration=configuration_of(card),
        )
        for gpu in gpu_names(claim)
    )


def model_name(card: Card) -> str | None:
    """The name of the card's model in a record; that of a folder is not where it lies."""
    return card.model.id or (PurePath(card.model.path).name if card.model.path else None)


def driver_of(offer: Offer) -> str | None:
    """The driver that the offer states, where it can be compared with what a record states."""
    stated = offer.host.driver_version
    return stated if stated is not None and is_version(stated) else None


def gpu_names(claim: GpuClaim) -> tuple[str, ...]:
    """Catalogue keys that the seller's name may mean, or the name itself; a slice of a GPU is another GPU."""
    names = claim.candidates or (claim.name_raw,)
    if claim.share in (None, "whole"):
        return names
    part = claim.mig_profile if claim.share == "mig" and claim.mig_profile else claim.share
    return tuple(f"{name}/{part}" for name in names)


def configuration_of(card: Card) -> str:
    """Engine options, training recipe, allocator and placement of the card, as one comparable text."""
    settings: dict[str, object] = {}
    if card.engine:
        settings |= {f"engine.{name}": value for name, value in card.engine.options.items()}
    if card.training:
        recipe = {"method": card.training.method, "rank": card.training.rank, "optimizer": card.training.optimizer}
        settings |= {f"training.{name}": value for name, value in (recipe | card.training.options).items()}
    if card.task == "fine-tuning":
        settings["accumulation"] = card.accumulation
    settings["allocator"] = card.allocator
    if isinstance(card.placement, Placement):
        for name in ("tensor_parallel", "pipeline_parallel", "expert_parallel", "data_parallel"):
            degree = getattr(card.placement, name)
            settings[name] = degree if degree != 1 else None
    return configuration_text({name: value for name, value in settings.items() if value is not None})


def unstated(need: Scope, fields: Iterable[str]) -> tuple[Message, ...]:
    """A reason for each of these fields that the need leaves open: evidence cannot cover what is not asked."""
    return tuple(NOT_STATED(field=FIELD_IN_CARD.get(field, field)) for field in fields if getattr(need, field) is None)
