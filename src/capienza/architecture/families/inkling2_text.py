"""Inkling 2, text side: full and windowed layers with short convolutions, experts in every layer."""

from __future__ import annotations

from capienza.architecture.assembly import assemble
from capienza.architecture.inkling2_blocks import (
    after_blocks,
    inkling2_head,
    read_inkling2_blocks,
    with_inkling2_names,
)
from capienza.architecture.inkling_parts import OLDER_NAMES, embedding, read_inkling_frame
from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers but every sixth are windowed, unless `layer_types` says otherwise."""
    config = with_inkling2_names(config, OLDER_NAMES)
    frame = read_inkling_frame(config, hidden_size=4608, num_hidden_layers=48, max_positions=1_048_576)
    return assemble(
        config,
        frame,
        read_inkling2_blocks(config, frame, heads=48, experts=384, width=2304),
        before=embedding(frame),
        after=after_blocks(frame.hidden_size),
        head=inkling2_head(config, frame.hidden_size),
    )
