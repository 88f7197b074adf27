"""Granite 4: Mamba-2 layers with full attention in between, a shared MLP in every layer, and experts in some models."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import read_frame
from capienza.architecture.granite_parts import granite_mixture, granite_shared_mlp
from capienza.architecture.heads import layer_types, read_heads
from capienza.architecture.mixers import read_mamba2
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import Piece, attention_pieces, layer_norms
from capienza.architecture.reading import Config

LAYER_TYPES = frozenset({"full_attention", "linear_attention"})


def build(config: Config) -> Architecture:
    """Layers as `layer_types` says, all Mamba-2 without it; zero experts leave the shared MLP alone."""
    config = config.with_aliases(layer_types="layers_block_type")
    frame = read_frame(config, hidden_size=4096, num_hidden_layers=32, vocab_size=32000, max_position_embeddings=2048)
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=32)
    mamba = read_mamba2(config, hidden).mixer("mamba")
    bias = config.flag("attention_bias", default=False)
    attending = attention_pieces(heads, hidden, bias=bias, output_bias=bias)
    shared_width = config.dimension("shared_intermediate_size", 1024)
    mlp, experts = Mlp(kind="dense", intermediate_size=shared_width), list[Piece]()
    if config.integer("num_local_experts", 8, minimum=0):
        mlp, experts = granite_mixture(config, hidden, shared_width)
    forward = [*layer_norms(hidden), *experts, *granite_shared_mlp(hidden, shared_width)]
    blocks = []
    for kind in layer_types(config, frame.num_layers, lambda _: "linear_attention", LAYER_TYPES):
        attends = kind == "full_attention"
        blocks.append(
            Block(
                attention=heads.attention() if attends else None,
                state=None if attends else mamba.state,
                mlp=mlp,
                pieces=[*forward, *(attending if attends else mamba.pieces)],
            )
        )
    return assemble(config, frame, blocks)
