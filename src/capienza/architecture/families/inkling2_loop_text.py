"""Inkling 2 Loop, text side: Inkling 2 whose middle layers run several times, each pass with a cache of its own."""

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
from capienza.architecture.pieces import Piece
from capienza.architecture.reading import MAX_LAYERS, Config

QUERIES = 4


def build(config: Config) -> Architecture:
    """The loop runs from `loop_layer_index_start` up to `loop_layer_index_end`, as `loop_config` may say."""
    config = with_inkling2_names(config, OLDER_NAMES)
    frame = read_inkling_frame(config, hidden_size=2304, num_hidden_layers=24, max_positions=1_048_576)
    hidden = frame.hidden_size
    own = config.section("loop_config") or Config({}, config.file, parent=config)
    start = own.optional("core_start") or config.integer("loop_layer_index_start", 6)
    end = own.optional("core_end") or config.integer("loop_layer_index_end", 18)
    block = config.integer("n_layers_per_attn_res_block", 6)
    for key, index in {"loop_layer_index_start": start, "loop_layer_index_end": end}.items():
        if index % block:
            config.broken_rule(key, index, f"{key} % {block} == 0")
    if not start < end <= frame.num_layers:
        config.broken_rule("loop_layer_index_end", end, f"{start} < loop_layer_index_end <= {frame.num_layers}")
    passes = own.optional("num_passes", maximum=MAX_LAYERS) or config.integer("loop_num_passes", 3, maximum=MAX_LAYERS)
    blocks = read_inkling2_blocks(
        config,
        frame,
        heads=24,
        experts=128,
        width=1152,
        looped=range(start, end),
        passes=passes,
        gate_rank=own.optional("gate_rank") or config.integer("loop_gate_rank", 64),
    )
    messages: Piece = ("model.message_input.query", (end - start, QUERIES, hidden), "attention")
    return assemble(
        config,
        frame,
        blocks,
        before=embedding(frame),
        after=[*after_blocks(hidden), messages],
        head=inkling2_head(config, hidden),
    )
