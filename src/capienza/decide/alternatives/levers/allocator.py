"""PyTorch's allocator: segments that grow leave less between blocks.

Of a training whose blocks are run through the allocator it is known how much; of an engine it is not.
"""

from __future__ import annotations

from capienza.decide.alternatives.change import Proposals, change
from capienza.decide.alternatives.levers.texts import ALREADY
from capienza.decide.alternatives.scene import Scene
from capienza.errors import template
from capienza.ledger.ledger import CACHED

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
    is_replayed = scene.training is not None and CACHED not in scene.now.peak.missing
    lacks = () if is_replayed else (FRAGMENTATION,)
    kept = [part for part in parts if not part.startswith("expandable_segments")]
    return Proposals(changes=(change("allocator", card, {"allocator": ",".join((*kept, EXPANDABLE))}, lacks=lacks),))
