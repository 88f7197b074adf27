"""What every decoder model states: widths, number of layers, positions, and whether the head is the embedding."""

from __future__ import annotations

import msgspec

from capienza.architecture.reading import MAX_LAYERS, Config


class Frame(msgspec.Struct, frozen=True):
    """The numbers all families share; `hidden_size` is the width of the residual stream."""

    hidden_size: int
    num_layers: int
    vocab_size: int
    max_positions: int | None
    tied_head: bool


def read_frame(
    config: Config,
    *,
    hidden_size: int,
    num_hidden_layers: int,
    vocab_size: int,
    max_position_embeddings: int,
    tied: bool = False,
) -> Frame:
    """The frame of a model; the arguments are the defaults of its config class."""
    return Frame(
        hidden_size=config.dimension("hidden_size", hidden_size),
        num_layers=config.dimension("num_hidden_layers", num_hidden_layers, maximum=MAX_LAYERS),
        vocab_size=config.dimension("vocab_size", vocab_size),
        max_positions=config.integer("max_position_embeddings", max_position_embeddings),
        tied_head=config.flag("tie_word_embeddings", tied),
    )
