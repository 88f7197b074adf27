"""Llama 3.2 Vision, text side: some layers attend to the image instead of to the text."""

from __future__ import annotations

import msgspec

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import full_attention, read_heads
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import Piece, attention_pieces, gated_mlp, layer_norms
from capienza.architecture.reading import Config
from capienza.errors import template

IMAGE_TOKENS = template(
    "architecture.image-cross-attention",
    "{layers} layer(s) attend to the tokens of an image instead of the text: a text alone keeps nothing in them; each"
    " image token adds {elements} elements of K and V to the cache",
    "Add them for the images that are in the context at once.",
)
DEFAULT_CROSS = (3, 8, 13, 18, 23, 28, 33, 38)
ADDED_ROWS = 8
"""The embedding has rows for tokens that the head does not know, the image's among them."""


def build(config: Config) -> Architecture:
    """The layers of `cross_attention_layers` attend to the image. The class ties nothing."""
    frame = read_frame(
        config, hidden_size=4096, num_hidden_layers=40, vocab_size=128_256, max_position_embeddings=131_072
    )
    frame = msgspec.structs.replace(frame, tied_head=False)
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=32, num_key_value_heads=8, shared_out=True)
    width = config.dimension("intermediate_size", 14336)
    mlp = Mlp(kind="dense", intermediate_size=width)
    common = [*gated_mlp(hidden, width), *layer_norms(hidden)]
    own = Block(
        attention=full_attention(config, heads, frame.num_layers),
        mlp=mlp,
        pieces=[*attention_pieces(heads, hidden), *common],
    )
    gates: list[Piece] = [("cross_attn_attn_gate", (1,), "attention"), ("cross_attn_mlp_gate", (1,), "mlp")]
    image = Block(
        attention=heads.attention("cross"),
        mlp=mlp,
        pieces=[*attention_pieces(heads, hidden, head_norm=True, name="cross_attn"), *gates, *common],
    )
    listed = config.integers("cross_attention_layers")
    crossing = set(DEFAULT_CROSS if listed is None else listed) & set(range(frame.num_layers))
    if crossing:
        elements = 2 * heads.key_width * len(crossing)
        config.notes.append(IMAGE_TOKENS(layers=len(crossing), elements=elements))
    return assemble(
        config,
        frame,
        [image if index in crossing else own for index in range(frame.num_layers)],
        before=[("model.embed_tokens.weight", (frame.vocab_size + ADDED_ROWS, hidden), "embedding")],
    )
