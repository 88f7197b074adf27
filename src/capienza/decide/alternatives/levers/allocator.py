"""PyTorch's allocator: segments that grow leave less between blocks. What lies between blocks is not predicted yet."""

from __future__ import annotations

from capienza.decide.alternatives.change import Proposals, change
from capienza.decide.alternatives.levers.texts import ALREADY
from capienza.decide.alternatives.scene import Scene
from capienza.errors import template

FRAGMENTATION = "fragmentation"
EXPANDABLE = "expandable_segments:True"
OWN_ALLOCATOR = template("alternatives.own-allocator", "{engine} does not use PyTorch's allocator")


def allocators(scene: Scene) -> Proposals:
    """Expandable segments, beside what the card already sets."""
    card = scene.card
    if card.engine is not None and card.engine.name == "llama.cpp":
        return Proposals(notes=(OWN_ALLOCATOR(engine=card.engine.name),))
    parts = [part.strip() for part in (card.allocator or "").split(",") if part.strip()]
    if EXPANDABLE in parts:
        return Proposals(notes=(ALREADY(found=f"allocator: {card.allocator}"),))
    kept = [part for part in parts if not part.startswith("expandable_segments")]
    return Proposals(
        changes=(change("allocator", card, {"allocator": ",".join((*kept, EXPANDABLE))}, lacks=(FRAGMENTATION,)),)
    )
