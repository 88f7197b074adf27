"""What GPT-2 and GPT-BigCode share: the names of their keys, learned positions, and what lies around the blocks."""

from __future__ import annotations

from collections.abc import Collection

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import Frame
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import norm
from capienza.architecture.reading import MAX_LAYERS, Config
from capienza.errors import phrase


def read_gpt2_frame(config: Config, *, tied: bool = True) -> tuple[Config, Frame]:
    """The config with its common names as aliases, and its frame; both classes have the same defaults."""
    config = config.with_aliases(
        n_embd="hidden_size",
        n_layer="num_hidden_layers",
        n_head="num_attention_heads",
        n_positions="max_position_embeddings",
    )
    if config.flag("add_cross_attention", default=False):
        config.not_understood(
            "add_cross_attention", True, "false", phrase("the weights and cache would come out too small")
        )
    frame = Frame(
        hidden_size=config.dimension("n_embd", 768),
        num_layers=config.dimension("n_layer", 12, maximum=MAX_LAYERS),
        vocab_size=config.dimension("vocab_size", 50257),
        max_positions=config.integer("n_positions", 1024),
        tied_head=config.flag("tie_word_embeddings", default=tied),
    )
    return config, frame


def assemble_gpt2(config: Config, frame: Frame, block: Block, transposed: Collection[str] = ()) -> Architecture:
    """A model of equal blocks between two embedding tables and a final layer norm."""
    positions = config.integer("n_positions", 1024)
    return assemble(
        config,
        frame,
        [block] * frame.num_layers,
        before=[
            ("transformer.wte.weight", (frame.vocab_size, frame.hidden_size), "embedding"),
            ("transformer.wpe.weight", (positions, frame.hidden_size), "position"),
        ],
        after=norm("transformer.ln_f", frame.hidden_size, bias=True),
        blocks_at="transformer.h",
        transposed=transposed,
    )
