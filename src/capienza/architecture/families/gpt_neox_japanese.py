"""GPT-NeoX Japanese: no biases but one, in the last layer's attention, and a tied head."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import Heads, full_attention, share_out
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import Piece, layer_norms, linear, norm, plain_mlp
from capienza.architecture.reading import Config

ROOT = "gpt_neox_japanese"


def build(config: Config) -> Architecture:
    """All layers alike but for the bias, with full attention."""
    frame = read_frame(
        config,
        hidden_size=2560,
        num_hidden_layers=32,
        vocab_size=32000,
        max_position_embeddings=2048,
        tied=True,
    )
    hidden = frame.hidden_size
    count = config.dimension("num_attention_heads", 32)
    heads = Heads(count, count, share_out(config, hidden, count))
    intermediate = config.integer("intermediate_multiple_size", 4) * hidden
    attention = full_attention(config, heads, frame.num_layers)
    pieces: list[Piece] = [
        *layer_norms(hidden, bias=True),
        *linear("attention.query_key_value", 3 * hidden, hidden, "attention"),
        *linear("attention.dense", hidden, hidden, "attention"),
        *plain_mlp(hidden, intermediate, up="mlp.dense_h_to_4h", down="mlp.dense_4h_to_h", bias=False),
    ]
    mlp = Mlp(kind="dense", intermediate_size=intermediate)
    bias: Piece = ("attention.dense_bias", (hidden,), "attention")
    blocks = [Block(attention=attention, mlp=mlp, pieces=pieces)] * (frame.num_layers - 1)
    blocks.append(Block(attention=attention, mlp=mlp, pieces=[*pieces, bias]))
    return assemble(
        config,
        frame,
        blocks,
        before=[(f"{ROOT}.embed_in.weight", (frame.vocab_size, hidden), "embedding")],
        after=norm(f"{ROOT}.final_layer_norm", hidden, bias=True),
        head=linear("embed_out", frame.vocab_size, hidden, "head"),
        blocks_at=f"{ROOT}.layers",
    )
