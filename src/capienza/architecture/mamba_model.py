"""The frame of the pure Mamba models: they bound no positions and name their parts in their own way."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import Frame
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import norm
from capienza.architecture.reading import MAX_LAYERS, Config


def read_mamba_frame(config: Config, *, hidden_size: int, num_hidden_layers: int, vocab_size: int, tied: bool) -> Frame:
    """The frame of a Mamba model; the arguments are the defaults of its config class."""
    return Frame(
        hidden_size=config.dimension("hidden_size", hidden_size),
        num_layers=config.dimension("num_hidden_layers", num_hidden_layers, maximum=MAX_LAYERS),
        vocab_size=config.dimension("vocab_size", vocab_size),
        max_positions=None,
        tied_head=config.flag("tie_word_embeddings", tied),
    )


def assemble_mamba(config: Config, frame: Frame, block: Block) -> Architecture:
    """The same block in every layer, under the names of the Mamba classes."""
    return assemble(
        config,
        frame,
        [block] * frame.num_layers,
        before=[("backbone.embeddings.weight", (frame.vocab_size, frame.hidden_size), "embedding")],
        after=norm("backbone.norm_f", frame.hidden_size),
        blocks_at="backbone.layers",
    )
