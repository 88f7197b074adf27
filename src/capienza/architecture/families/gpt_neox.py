"""GPT-NeoX and Pythia: fused Q K V, two norms with biases."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import Heads, full_attention, share_out
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import layer_norms, linear, norm, plain_mlp
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike, with full attention."""
    frame = read_frame(config, hidden_size=6144, num_hidden_layers=44, vocab_size=50432, max_position_embeddings=2048)
    hidden = frame.hidden_size
    count = config.dimension("num_attention_heads", 64)
    heads = Heads(count, count, share_out(config, hidden, count))
    intermediate = config.dimension("intermediate_size", 24576)
    bias = config.flag("attention_bias", True)
    block = Block(
        attention=full_attention(config, heads, frame.num_layers),
        mlp=Mlp(kind="dense", intermediate_size=intermediate),
        pieces=[
            *layer_norms(hidden, bias=True),
            *linear("attention.query_key_value", 3 * hidden, hidden, "attention", bias),
            *linear("attention.dense", hidden, hidden, "attention", bias),
            *plain_mlp(hidden, intermediate, up="mlp.dense_h_to_4h", down="mlp.dense_4h_to_h"),
        ],
    )
    return assemble(
        config,
        frame,
        [block] * frame.num_layers,
        before=[("gpt_neox.embed_in.weight", (frame.vocab_size, hidden), "embedding")],
        after=norm("gpt_neox.final_layer_norm", hidden, bias=True),
        blocks_at="gpt_neox.layers",
    )
