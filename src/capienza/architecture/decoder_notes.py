"""What must be said of models that were not built as plain decoders: cross-attention, or no cache at all."""

from __future__ import annotations

from capienza.architecture.heads import Heads
from capienza.architecture.model import Attention
from capienza.architecture.reading import Config
from capienza.errors import template

CROSS_CACHE = template(
    "architecture.cross-attention-cache",
    "the cache of a text-only run is counted; with an encoder's output, its cross-attention adds K and V of"
    " {per_token} B for each encoder token in 16 bit, once for a sequence",
    "Multiply by the encoder's tokens, and add it for every sequence that has an encoder's output.",
)
NO_CACHE = template(
    "architecture.no-cache",
    "{model_type} keeps no cache in transformers: the whole sequence is computed again for every new token",
    "An engine with its own implementation of the model may keep K and V.",
)
PREFIX_PLACES = template(
    "architecture.prefix-places",
    "{source} comes before the text and takes {count} places of the sequence, each with K and V in the cache; they are"
    " not counted",
    "Add them to the tokens of every sequence that has one.",
)


def note_cross_attention(config: Config, heads: Heads, num_layers: int) -> None:
    """Say what each token of an encoder would add: K and V of every layer."""
    config.notes.append(CROSS_CACHE(per_token=2 * 2 * heads.key_width * num_layers))


def uncached_attention(config: Config, heads: Heads) -> Attention:
    """The attention of a model that keeps nothing between steps, with the note that says so."""
    config.notes.append(NO_CACHE(model_type=config.text("model_type")))
    return heads.attention("uncached")
